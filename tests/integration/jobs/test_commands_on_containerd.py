"""Commands on a real node. The daemon is killed right after each answer: what was answered is done all the same."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.desk import (
    DEAF,
    POLITE,
    container,
    containers,
    crash,
    job,
    pods,
    private_node,
    put,
    read,
    sidecar,
    until,
    until_finished,
)
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    with private_node() as node:
        yield node


def answered_then_killed(node: PrivateNode, *command: str) -> str:
    """What the command prints; the daemon dies right after that, and another one begins."""
    said = node.cli(*command)
    crash(node)
    node.start()
    return said


def refused(node: PrivateNode, *command: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        node.cli(*command)
    assert caught.value.returncode == 1
    return str(caught.value.stdout)


def shown(node: PrivateNode, name: str) -> dict[str, Any]:
    """The Job as the daemon shows it; empty if there is none."""
    return next((it for it in node.get("/jobs")["items"] if it["metadata"]["name"] == name), {})


def counts(node: PrivateNode, name: str) -> dict[str, int]:
    status = shown(node, name).get("status", {})
    return {key: status.get(key, 0) for key in ("active", "terminating", "succeeded", "failed")}


def uid(node: PrivateNode, name: str) -> str:
    return str(shown(node, name).get("metadata", {}).get("uid", ""))


def running(node: PrivateNode, name: str) -> list[str]:
    """Names of the Job's pods that run."""
    return [pod["metadata"]["name"] for pod in pods(node, name) if pod["status"].get("phase") == "Running"]


def remove(node: PrivateNode, name: str) -> None:
    (node.manifests / f"{name}.json").unlink()
    until(lambda: not shown(node, name))


class Gate:
    """A pod that is told to stop ends when the gate is opened; then with the code given."""

    def __init__(self, node: PrivateNode, name: str) -> None:
        self.folder = node.base / f"gate-{name}"
        self.folder.mkdir()
        self.volume = {"name": "gate", "hostPath": {"path": str(self.folder)}}

    def container(self, code: int) -> dict[str, Any]:
        trap = f"trap 'touch /gate/told; until [ -e /gate/open ]; do sleep 0.1; done; exit {code}' TERM"
        mounts = [{"name": "gate", "mountPath": "/gate"}]
        return container("main", f"{trap}; touch /gate/up; while :; do sleep 0.1; done", volumeMounts=mounts)

    @property
    def up(self) -> bool:
        """It would hear if it were told."""
        return (self.folder / "up").exists()

    @property
    def told(self) -> bool:
        return (self.folder / "told").exists()

    def open(self) -> None:
        (self.folder / "open").touch()


def test_row_36_a_deleted_pod_has_failed_at_once_and_is_replaced_while_it_ends(node: PrivateNode) -> None:
    gate = Gate(node, "at-once")
    spec = {"podReplacementPolicy": "TerminatingOrFailed"}
    put(
        node,
        job("at-once", spec, terminationGracePeriodSeconds=120, containers=[gate.container(0)], volumes=[gate.volume]),
    )
    until(lambda: gate.up and running(node, "at-once"))
    (name,) = running(node, "at-once")
    assert answered_then_killed(node, "delete", "pod", name, "--no-wait") == f'pod "{name}" deleted\n'
    assert counts(node, "at-once")["failed"] == 1
    until(lambda: gate.told and len(running(node, "at-once")) == 2)  # the old one ends still
    assert counts(node, "at-once") == {"active": 1, "terminating": 1, "succeeded": 0, "failed": 1}
    gate.open()
    until(lambda: name not in {pod["metadata"]["name"] for pod in pods(node, "at-once")})
    assert counts(node, "at-once") == {"active": 1, "terminating": 0, "succeeded": 0, "failed": 1}
    remove(node, "at-once")


def test_row_36_with_policy_failed_a_deleted_pod_is_replaced_when_it_has_ended(node: PrivateNode) -> None:
    gate = Gate(node, "when-failed")
    spec = {"podReplacementPolicy": "Failed"}
    put(
        node,
        job(
            "when-failed",
            spec,
            terminationGracePeriodSeconds=120,
            containers=[gate.container(1)],
            volumes=[gate.volume],
        ),
    )
    until(lambda: gate.up and running(node, "when-failed"))
    (name,) = running(node, "when-failed")
    answered_then_killed(node, "delete", f"pod/{name}", "--no-wait")
    until(lambda: gate.told)
    assert counts(node, "when-failed") == {"active": 0, "terminating": 1, "succeeded": 0, "failed": 0}
    assert read(node, "SELECT count(*) FROM job_pods, jobs WHERE job_uid = jobs.uid AND jobs.name = 'when-failed'") == [
        (1,)
    ]
    gate.open()
    until(lambda: [each for each in running(node, "when-failed") if each != name])  # after the back-off
    assert counts(node, "when-failed") == {"active": 1, "terminating": 0, "succeeded": 0, "failed": 1}
    remove(node, "when-failed")


def test_a_run_by_hand_survives_and_completes(node: PrivateNode) -> None:
    template = job("", {}, containers=[container("main", "sleep 1")])["spec"]
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "yearly"}}
    put(node, {**cron, "spec": {"schedule": "@yearly", "jobTemplate": {"spec": template}}})
    until(lambda: node.get("/cronjobs")["items"])
    assert answered_then_killed(node, "job", "run", "--from", "cronjob/yearly", "hand") == "job.batch/hand created\n"
    made = answered_then_killed(node, "job", "run", "--from=cj/yearly", "-o", "name").strip()
    node.cli("wait", "job/hand", "--for=condition=Complete", "--timeout=60s")
    node.cli("wait", made.replace("job.batch/", "job/"), "--for=condition=Complete", "--timeout=60s")
    assert shown(node, "hand")["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert "AlreadyExists" in refused(node, "job", "run", "--from", "cronjob/yearly", "hand")
    events = node.cli("describe", "cronjob", "yearly").partition("Events:")[2]
    assert "Created job hand" in events
    assert answered_then_killed(node, "delete", "job", "hand", "--no-wait") == 'job.batch "hand" deleted\n'
    until(lambda: not shown(node, "hand"))
    (node.manifests / "yearly.json").unlink()
    until(lambda: not node.get("/jobs")["items"] and not node.get("/cronjobs")["items"])


def test_suspending_and_resuming_keep_the_counters(node: PrivateNode) -> None:
    work = 'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then exit 0; fi; ' + POLITE
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    put(node, job("pausing", spec, containers=[container("main", work)]))
    until(lambda: counts(node, "pausing") == {"active": 2, "terminating": 0, "succeeded": 1, "failed": 0})
    assert answered_then_killed(node, "job", "suspend", "pausing") == "job.batch/pausing suspended\n"
    until(lambda: counts(node, "pausing") == {"active": 0, "terminating": 0, "succeeded": 1, "failed": 0})
    assert "Suspended" in node.cli("get", "jobs", "pausing")
    first = uid(node, "pausing")
    assert answered_then_killed(node, "job", "resume", "pausing") == "job.batch/pausing resumed\n"
    until(lambda: len(running(node, "pausing")) == 2)
    assert counts(node, "pausing") == {"active": 2, "terminating": 0, "succeeded": 1, "failed": 0}
    assert (uid(node, "pausing"), shown(node, "pausing")["status"]["completedIndexes"]) == (first, "0")
    remove(node, "pausing")


def test_a_finished_job_runs_again(node: PrivateNode) -> None:
    shared = node.base / "again"
    shared.mkdir()
    volumes = [{"name": "s", "hostPath": {"path": str(shared)}}]
    main = container("main", "echo run >> /s/lines", volumeMounts=[{"name": "s", "mountPath": "/s"}])
    put(node, job("again", {}, containers=[main], volumes=volumes))
    until_finished(node, "again")
    first = uid(node, "again")
    node.cli("job", "restart", "again")  # returns when the other run is there
    assert uid(node, "again") not in ("", first)
    until_finished(node, "again")
    second = uid(node, "again")
    answered_then_killed(node, "job", "restart", "again", "--no-wait")
    until(lambda: uid(node, "again") not in ("", second))
    until_finished(node, "again")
    assert (shared / "lines").read_text() == "run\n" * 3
    assert shown(node, "again")["metadata"]["generation"] == 3
    assert len(pods(node, "again")) == 1
    assert "has ended (Complete)" in refused(node, "job", "suspend", "again")
    remove(node, "again")


def test_a_running_job_ends_before_it_runs_again(node: PrivateNode) -> None:
    gate = Gate(node, "over")
    put(node, job("over", {}, terminationGracePeriodSeconds=120, containers=[gate.container(0)], volumes=[gate.volume]))
    until(lambda: gate.up and running(node, "over"))
    first = uid(node, "over")
    answered_then_killed(node, "job", "restart", "over", "--no-wait")
    until(lambda: gate.told)
    assert (uid(node, "over"), len(pods(node, "over"))) == (first, 1)
    gate.open()
    until(lambda: running(node, "over") and uid(node, "over") != first)
    assert counts(node, "over") == {"active": 1, "terminating": 0, "succeeded": 0, "failed": 0}
    remove(node, "over")


def test_an_expired_job_runs_again(node: PrivateNode) -> None:
    put(node, job("brief", {"ttlSecondsAfterFinished": 0}, containers=[container("main", "exit 0")]))
    until(lambda: read(node, "SELECT state FROM jobs WHERE name = 'brief'") == [("tombstone",)])
    ((first,),) = read(node, "SELECT uid FROM jobs WHERE name = 'brief'")
    answered_then_killed(node, "job", "restart", "brief")
    until(lambda: read(node, "SELECT state FROM jobs WHERE name = 'brief' AND uid <> ?", first) == [("tombstone",)])
    (node.manifests / "brief.json").unlink()
    until(lambda: not read(node, "SELECT uid FROM jobs WHERE name = 'brief'"))


@pytest.fixture
def web(node: PrivateNode) -> Iterator[Path]:
    """A pod of the folder that writes what befalls it into this file."""
    shared = node.base / "web"
    shared.mkdir(exist_ok=True)
    lines = shared / "lines"
    lines.write_text("")

    def member(name: str, on_term: str = "exit 0", **fields: Any) -> dict[str, Any]:
        script = f"trap 'echo {name} ends >> /s/lines; {on_term}' TERM; echo {name} starts >> /s/lines; "
        mounts = [{"name": "s", "mountPath": "/s"}]
        return container(name, script + "while :; do sleep 0.1; done", volumeMounts=mounts, **fields)

    spec = {
        "initContainers": [member("side", restartPolicy="Always")],
        "containers": [member("main")],
        "volumes": [{"name": "s", "hostPath": {"path": str(shared)}}],
    }
    put(node, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
    until(lambda: "main starts" in lines.read_text())
    yield lines
    (node.manifests / "web.json").unlink()
    until(lambda: not [it for it in node.get("/pods")["items"] if it["metadata"]["name"] == "web"])


ONE_LIFE = ["side starts", "main starts", "main ends", "side ends"]


def test_a_pod_of_the_folder_ends_in_order_and_begins_anew(node: PrivateNode, web: Path) -> None:
    before = containers(node)
    assert node.cli("delete", "pod", "web") == 'pod "web" deleted\n'  # returns when nothing of the old one is left
    assert not before & containers(node)
    until(lambda: web.read_text().split("\n")[:-1] == [*ONE_LIFE, *ONE_LIFE[:2]])
    before = containers(node)
    answered_then_killed(node, "delete", "pod/web", "--no-wait")
    until(lambda: web.read_text().split("\n")[:-1] == [*ONE_LIFE, *ONE_LIFE, *ONE_LIFE[:2]])
    assert not before & containers(node)
    (pod,) = [it for it in node.get("/pods")["items"] if it["metadata"]["name"] == "web"]
    assert [it["restartCount"] for it in pod["status"]["containerStatuses"]] == [0]


DEAF_POD = {"terminationGracePeriodSeconds": 600, "containers": [container("main", DEAF)]}


def test_a_pod_that_is_deaf_is_gone_soon_if_that_is_asked_for(node: PrivateNode) -> None:
    """A second word shortens a stop that is under way. Without it the pod would take ten minutes."""

    def one() -> dict[str, Any]:
        return next((it for it in node.get("/pods")["items"] if it["metadata"]["name"] == "deaf"), {})

    spec = {**DEAF_POD, "initContainers": [sidecar()]}
    put(node, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deaf"}, "spec": spec})
    until(lambda: one().get("status", {}).get("phase") == "Running")
    answered_then_killed(node, "delete", "pod", "deaf", "--no-wait")
    assert one()["metadata"]["deletionGracePeriodSeconds"] == 600
    (node.manifests / "deaf.json").unlink()
    node.cli("delete", "pod", "deaf", "--now")
    assert not one()


def test_a_jobs_pod_that_is_deaf_is_gone_soon_if_that_is_asked_for(node: PrivateNode) -> None:
    put(node, job("deaf-job", {}, **DEAF_POD))
    until(lambda: running(node, "deaf-job"))
    (name,) = running(node, "deaf-job")
    (node.manifests / "deaf-job.json").unlink()
    answered_then_killed(node, "delete", "pod", name, "--grace-period=1", "--no-wait")
    until(lambda: not pods(node, "deaf-job"))


def test_events_of_pods_and_jobs_are_one_list_in_order(node: PrivateNode) -> None:
    put(node, job("telling", {}, containers=[container("main", "exit 0")]))
    until_finished(node, "telling")
    listed = json.loads(node.cli("get", "events", "-o", "json"))["items"]
    about = {it["involvedObject"]["kind"] for it in listed}
    assert about == {"Pod", "Job"}
    assert [it["lastTimestamp"] for it in listed] == sorted(it["lastTimestamp"] for it in listed)
    described = node.cli("describe", "job/telling")
    assert described.startswith("Name:             telling\n")
    assert "Job completed" in described
    remove(node, "telling")


def test_what_acts_is_not_on_the_port_and_what_is_not_there_is_told(node: PrivateNode) -> None:
    assert "NotFound" in refused(node, "delete", "pod", "none")
    assert node.cli("delete", "pod", "none", "--ignore-not-found") == ""
    assert 'cronjobs.batch "none" not found' in refused(node, "job", "run", "--from", "cronjob/none")
    request = urllib.request.Request(f"{node.url}/pods/default/none", method="DELETE")  # noqa: S310 - our own URL
    with pytest.raises(urllib.error.HTTPError, match="405") as caught:
        urllib.request.urlopen(request, timeout=10)  # noqa: S310 - as above
    assert json.loads(caught.value.read())["message"] == "/pods/default/none does not take DELETE, only GET, HEAD"
