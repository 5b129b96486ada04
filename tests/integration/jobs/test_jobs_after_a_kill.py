"""Rows of JOBS 17 about a killed daemon, on a real containerd: one kill finds five Jobs in five states."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.jobs.desk import (
    DEAF,
    conditions,
    container,
    containers,
    crash,
    is_finished,
    job,
    private_node,
    put,
    read,
    sidecar,
    tasks,
    until,
    until_finished,
)
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(240)]


class Killed:
    """What was there when the daemon was killed, and when it was started again."""

    def __init__(self, node: PrivateNode) -> None:
        self.node = node
        self.shared = node.base / "shared"
        self.shared.mkdir()
        self.tasks: dict[str, str] = {}
        self.restarted_at = 0.0

    def pod(self, script: str, **fields: Any) -> dict[str, Any]:
        mounts = [{"name": "s", "mountPath": "/s"}]
        return {
            "volumes": [{"name": "s", "hostPath": {"path": str(self.shared)}}],
            "initContainers": [sidecar()],
            "containers": [container("main", script, volumeMounts=mounts)],
            **fields,
        }

    def lines(self, name: str) -> list[str]:
        file = self.shared / name
        return file.read_text().splitlines() if file.exists() else []


def begin(killed: Killed) -> None:
    """Each Job to the state in which the kill is to find it."""
    node = killed.node
    waits = "echo $HOSTNAME >>/s/{0}; while [ ! -e /s/{0}-goes-on ]; do sleep 0.1; done; exit {1}"
    for row, code in (("row-39", 0), ("row-40", 1)):
        put(node, job(row, {"backoffLimit": 0}, **killed.pod(waits.format(row, code))))
    until(lambda: killed.lines("row-39") and killed.lines("row-40"))
    killed.tasks = tasks(node)
    put(node, job("row-42", {"parallelism": 2, "completions": 2}, **killed.pod("exit 1", initContainers=[])))
    until(lambda: read(node, "SELECT failed FROM jobs WHERE name = 'row-42'") == [(2,)])
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "podFailurePolicy": policy}
    script = (
        'if [ $JOB_COMPLETION_INDEX = 1 ]; then echo up >>/s/row-43; exec sh -c "$DEAF"; fi;'
        " while [ ! -e /s/row-43 ]; do sleep 0.1; done; exit 42"
    )
    deaf = killed.pod(script, terminationGracePeriodSeconds=8)
    deaf["containers"][0]["env"] = [{"name": "DEAF", "value": DEAF}]
    put(node, job("row-43", spec, **deaf))
    until(lambda: conditions(node, "row-43") == ["FailureTarget"])


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    with private_node() as node:
        here = Killed(node)
        begin(here)
        crash(node)
        assert conditions(node, "row-43") == ["FailureTarget"]
        mains = len(tasks(node))
        (here.shared / "row-40-goes-on").touch()
        until(lambda: len(tasks(node)) < mains)
        here.restarted_at = time.time()
        node.start()
        yield here


def test_row_39_a_running_pod_goes_on(killed: Killed) -> None:
    assert not is_finished(killed.node, "row-39")
    now = tasks(killed.node)
    assert len(set(killed.tasks.items()) & set(now.items())) >= 3  # sandbox, sidecar and main, the same processes
    (killed.shared / "row-39-goes-on").touch()
    until_finished(killed.node, "row-39")
    assert conditions(killed.node, "row-39") == ["SuccessCriteriaMet", "Complete"]
    assert len(killed.lines("row-39")) == 1
    assert outcomes(killed.node, "row-39") == ["succeeded"]


def test_row_40_an_exit_meanwhile_is_counted_once(killed: Killed) -> None:
    until_finished(killed.node, "row-40")
    assert conditions(killed.node, "row-40") == ["FailureTarget", "Failed"]
    assert read(killed.node, "SELECT failed FROM jobs WHERE name = 'row-40'") == [(1,)]
    assert len(killed.lines("row-40")) == 1
    assert outcomes(killed.node, "row-40") == ["failed"]


def test_row_42_back_off_goes_on_where_it_was(killed: Killed) -> None:
    node = killed.node
    ((text,),) = read(node, "SELECT failure_times FROM jobs WHERE name = 'row-42'")
    due = json.loads(text)[-1] + 20  # two failed
    created = "SELECT created_at FROM job_pods WHERE job_uid = (SELECT uid FROM jobs WHERE name = 'row-42')"
    until(lambda: len(read(node, created)) >= 4)
    for (at,) in sorted(read(node, created))[2:4]:
        assert due <= at <= max(due, killed.restarted_at) + 3


def test_row_43_a_failing_job_fails_and_counts_nothing_twice(killed: Killed) -> None:
    until_finished(killed.node, "row-43")
    assert conditions(killed.node, "row-43") == ["FailureTarget", "Failed"]
    assert read(killed.node, "SELECT failed, succeeded FROM jobs WHERE name = 'row-43'") == [(2, 0)]
    assert outcomes(killed.node, "row-43") == ["failed", "failed"]


def outcomes(node: PrivateNode, name: str) -> list[str]:
    query = "SELECT outcome FROM job_pods WHERE job_uid = (SELECT uid FROM jobs WHERE name = ?)"
    return [outcome for (outcome,) in read(node, query, name)]


def test_rows_56_and_57_a_cronjob_has_one_job_for_the_minute_in_which_it_fired_and_takes_all_with_it() -> None:
    with private_node() as node:
        killed = Killed(node)
        template = job("", {}, **killed.pod("sleep 0.5; echo $HOSTNAME >>/s/lines"))["spec"]
        manifest: dict[str, Any] = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "tick"},
            "spec": {"schedule": "@every 1s", "jobTemplate": {"spec": template}},
        }
        put(node, manifest)
        deadline = time.monotonic() + 60
        while not read(node, "SELECT 1 FROM cron_runs"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        crash(node)
        node.start()
        until(lambda: killed.lines("lines"))
        manifest["spec"]["suspend"] = True
        put(node, manifest)
        until(lambda: node.get("/cronjobs")["items"][0]["spec"]["suspend"])
        runs = [f"tick-{minute}" for (minute,) in read(node, "SELECT minute FROM cron_runs")]
        for name in runs:
            until_finished(node, name)
        assert sorted(name for (name,) in read(node, "SELECT name FROM jobs")) == sorted(runs)
        assert sorted(line.rpartition("-")[0] for line in killed.lines("lines")) == sorted(runs)
        (node.manifests / "tick.json").unlink()
        until(lambda: not containers(node))
        until(lambda: not read(node, "SELECT uid FROM cronjobs"))
        assert not read(node, "SELECT uid FROM jobs")
