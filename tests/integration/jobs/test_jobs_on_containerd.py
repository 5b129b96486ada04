"""Rows of JOBS 17 where it matters how containers really end: sidecars, signals, exit codes, deadlines, logs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.jobs.desk import (
    DEAF,
    POLITE,
    container,
    job,
    pods,
    private_node,
    read,
    sidecar,
    until,
    until_finished,
)
from tests.integration.jobs.desk import put as put_manifest
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

SULLEN = "trap 'exit 7' TERM; while :; do sleep 0.1; done"
#: Goes on when the sidecar beside it has been started a second time.
PATIENT = "while [ ! -e /e/twice ]; do sleep 0.1; done"
CRASHING = "[ -e /e/once ] && touch /e/twice; touch /e/once; sleep 1; exit 1"
SHARED = {"volumes": [{"name": "e", "emptyDir": {}}]}
MOUNTED = {"volumeMounts": [{"name": "e", "mountPath": "/e"}]}


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    with private_node("crashLoopBackOff: {maxContainerRestartPeriod: 1s}\n") as here:
        yield here


def put(node: PrivateNode, name: str, spec: dict[str, Any], **pod: Any) -> None:
    put_manifest(node, job(name, spec, **pod))


def status(node: PrivateNode, name: str) -> dict[str, Any]:
    found: dict[str, Any] = node.get(f"/jobs/default/{name}")["status"]
    return found


def reasons(node: PrivateNode, name: str) -> list[tuple[str, str]]:
    return [(each["type"], each["reason"]) for each in status(node, name)["conditions"]]


def wait(node: PrivateNode, name: str, condition: str, *, timeout: str = "60s") -> None:
    until(lambda: any(found["metadata"]["name"] == name for found in node.get("/jobs")["items"]))
    node.cli("wait", f"job/{name}", f"--for=condition={condition}", f"--timeout={timeout}")


def ended(pod: dict[str, Any], name: str) -> dict[str, Any]:
    entries = pod["status"]["containerStatuses"] + pod["status"].get("initContainerStatuses", [])
    state: dict[str, Any] = next(each["state"] for each in entries if each["name"] == name)
    end: dict[str, Any] = state["terminated"]
    return end


@pytest.mark.parametrize(
    ("row", "script", "code", "seconds"),
    [(10, POLITE, 0, (1.0, 4.0)), (11, SULLEN, 7, (1.0, 4.0)), (12, DEAF, 137, (4.0, 7.5))],
)
def test_rows_10_to_12_a_job_completes_when_its_sidecar_has_ended_however_it_ends(
    node: PrivateNode, row: int, script: str, code: int, seconds: tuple[float, float]
) -> None:
    name = f"row-{row}"
    put(
        node,
        name,
        {},
        terminationGracePeriodSeconds=3,
        initContainers=[sidecar(script)],
        containers=[container("main", "sleep 1; exit 0")],
    )
    wait(node, name, "Complete")
    (pod,) = pods(node, name)
    assert pod["status"]["phase"] == "Succeeded"
    assert ended(pod, "side")["exitCode"] == code
    assert status(node, name)["succeeded"] == 1
    ((took,),) = read(
        node,
        "SELECT jobs.completion_time - job_pods.created_at FROM jobs, job_pods"
        " WHERE job_pods.job_uid = jobs.uid AND jobs.name = ?",
        name,
    )
    assert seconds[0] <= took <= seconds[1]


def test_row_13_a_failed_main_stops_its_sidecar_and_fails_the_job(node: PrivateNode) -> None:
    spec = {"backoffLimit": 0}
    put(node, "row-13", spec, initContainers=[sidecar()], containers=[container("main", "exit 3")])
    until_finished(node, "row-13")
    (pod,) = pods(node, "row-13")
    assert pod["status"]["phase"] == "Failed"
    assert (ended(pod, "main")["exitCode"], ended(pod, "side")["exitCode"]) == (3, 0)
    assert reasons(node, "row-13")[-1] == ("Failed", "BackoffLimitExceeded")


def test_row_14_a_crashing_sidecar_never_counts_under_never(node: PrivateNode) -> None:
    side = {**sidecar(CRASHING), **MOUNTED}
    main = container("main", PATIENT, **MOUNTED)
    put(node, "row-14", {"backoffLimit": 0}, **SHARED, initContainers=[side], containers=[main])
    wait(node, "row-14", "Complete")
    (pod,) = pods(node, "row-14")
    assert pod["status"]["initContainerStatuses"][0]["restartCount"] >= 1
    assert (status(node, "row-14")["succeeded"], status(node, "row-14").get("failed", 0)) == (1, 0)


def test_row_15_a_crashing_sidecar_fails_an_on_failure_job(node: PrivateNode) -> None:
    side = sidecar("sleep 1; exit 1")
    main = container("main", "sleep 600")
    put(node, "row-15", {"backoffLimit": 2}, restartPolicy="OnFailure", initContainers=[side], containers=[main])
    wait(node, "row-15", "Failed")
    assert reasons(node, "row-15")[-1] == ("Failed", "BackoffLimitExceeded")
    assert status(node, "row-15")["failed"] == 1
    until(lambda: not pods(node, "row-15"))


def test_row_16_a_sidecar_that_never_comes_up_lasts_until_the_deadline(node: PrivateNode) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1000}
    side = {**sidecar(), "startupProbe": probe}
    put(node, "row-16", {"activeDeadlineSeconds": 5}, initContainers=[side], containers=[container("main", "true")])
    until(lambda: pods(node, "row-16"))
    (pod,) = pods(node, "row-16")
    wait(node, "row-16", "Failed")
    assert pod["status"]["phase"] == "Pending"
    assert reasons(node, "row-16")[-1] == ("Failed", "DeadlineExceeded")
    assert not list(node.logs.glob(f"*{pod['metadata']['name']}*/main/*.log"))


def test_a_plain_second_container_that_never_ends_keeps_the_job_active(node: PrivateNode) -> None:
    put(node, "control", {}, containers=[container("main", "exit 0"), container("second", POLITE)])
    with pytest.raises(subprocess.CalledProcessError):
        wait(node, "control", "Complete", timeout="4s")
    found = status(node, "control")
    assert (found["active"], found.get("conditions", [])) == (1, [])


def test_row_23_a_failed_pod_keeps_its_log_and_its_exit_code(node: PrivateNode) -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    put(
        node,
        "fails",
        {"podFailurePolicy": policy},
        initContainers=[sidecar()],
        containers=[container("main", "echo last words; exit 42")],
    )
    wait(node, "fails", "Failed")
    (pod,) = pods(node, "fails")
    assert ended(pod, "main")["exitCode"] == 42
    conditions = status(node, "fails")["conditions"]
    text = f"Container main for pod default/{pod['metadata']['name']} failed with exit code 42 matching FailJob rule"
    assert conditions[-1]["message"] == f"{text} at index 0"
    logs = list(node.logs.glob(f"*{pod['metadata']['name']}*/main/*.log"))
    assert "last words" in logs[0].read_text()


def test_row_29_the_deadline_stops_pods_and_fails_the_job_when_they_are_gone(node: PrivateNode) -> None:
    spec = {"activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2}
    put(node, "late", spec, terminationGracePeriodSeconds=5, containers=[container("main", DEAF)])
    wait(node, "late", "FailureTarget")
    assert status(node, "late")["terminating"] == 2
    wait(node, "late", "Failed")
    found = status(node, "late")
    assert (found["failed"], found["terminating"]) == (2, 0)
    until(lambda: not pods(node, "late"))


def test_row_17_indexed_pods_know_their_index_and_their_name(node: PrivateNode) -> None:
    say = "echo $JOB_COMPLETION_INDEX $(hostname)"
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    put(node, "nth", spec, containers=[container("main", say)])
    wait(node, "nth", "Complete")
    assert status(node, "nth")["completedIndexes"] == "0-2"
    said = sorted(
        next(iter(node.logs.glob(f"*{pod['metadata']['name']}*/main/0.log"))).read_text().split(" F ")[1].strip()
        for pod in pods(node, "nth")
    )
    assert said == ["0 nth-0", "1 nth-1", "2 nth-2"]


def test_row_38_a_job_whose_time_to_live_is_over_leaves_nothing(node: PrivateNode) -> None:
    put(node, "brief", {"ttlSecondsAfterFinished": 1}, containers=[container("main", "true")])
    wait(node, "brief", "Complete")
    until(lambda: "brief" not in [found["metadata"]["name"] for found in node.get("/jobs")["items"]])
    assert not pods(node, "brief")
    assert not list(node.logs.glob("*brief*"))
    assert (node.manifests / "brief.json").exists()
