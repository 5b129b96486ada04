"""The daemon died before it wrote down what its pods' workers know: the Jobs' books and the runtime are enough.

JOBS 12: the books are the one truth about which pods a Job has and whether they are to run; what has begun is told by
the runtime. Nothing of a Job's pod may ever be taken for an orphan's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.jobs.desk import (
    container,
    containers,
    crash,
    is_finished,
    job,
    pods,
    private_node,
    put,
    read,
    sidecar,
    tasks,
    until,
    until_finished,
    write,
)
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

UNKNOWN = "a pod that is not known"


@pytest.fixture
def node() -> Iterator[PrivateNode]:
    with private_node() as here:
        yield here


def lose_memory(node: PrivateNode) -> None:
    crash(node)
    write(node, "DELETE FROM pods")


def one_more_job(node: PrivateNode) -> None:
    """When it is done the daemon has looked at everything."""
    put(node, job("later", {}, containers=[container("main", "true")]))
    until_finished(node, "later")


def test_what_an_ended_pod_left_stays(node: PrivateNode) -> None:
    put(node, job("brief", {}, initContainers=[sidecar()], containers=[container("main", "echo last words")]))
    until_finished(node, "brief")
    (before,) = pods(node, "brief")
    ids = containers(node)
    lose_memory(node)
    node.start()
    one_more_job(node)
    assert UNKNOWN not in node.log.read_text()
    (after,) = pods(node, "brief")
    assert [after["metadata"]["name"], after["status"]["phase"]] == [before["metadata"]["name"], "Succeeded"]
    assert ids <= containers(node)
    assert read(node, "SELECT succeeded, failed FROM jobs WHERE name = 'brief'") == [(1, 0)]
    assert read(node, "SELECT gone FROM job_pods WHERE job_uid = (SELECT uid FROM jobs WHERE name = 'brief')") == [(0,)]
    (log,) = node.logs.glob(f"*{before['metadata']['name']}*/main/0.log")
    assert "last words" in log.read_text()


def test_a_failed_pod_whose_containers_would_be_restarted_stays_ended(node: PrivateNode) -> None:
    pod = {"restartPolicy": "OnFailure", "activeDeadlineSeconds": 2, "terminationGracePeriodSeconds": 1}
    put(node, job("over", {"backoffLimit": 0}, **pod, containers=[container("main", "sleep 600")]))
    until_finished(node, "over")
    ids = containers(node)
    assert len(ids) == 2
    lose_memory(node)
    node.start()
    one_more_job(node)
    assert UNKNOWN not in node.log.read_text()
    until(lambda: [pod["status"]["phase"] for pod in pods(node, "over")] == ["Failed"])
    assert ids <= containers(node)
    assert len(containers(node)) == 4
    assert read(node, "SELECT failed FROM jobs WHERE name = 'over'") == [(1,)]


def test_running_pods_go_on_and_nobody_asks_for_room_again(node: PrivateNode) -> None:
    for name in ("one", "two"):
        put(node, job(name, {}, initContainers=[sidecar()], containers=[container("main", "sleep 6")]))
    until(lambda: len(tasks(node)) == 6)  # sandbox, sidecar and main of each
    before = tasks(node)
    lose_memory(node)
    node.configure("maxPods: 1\n")
    node.start()
    for name in ("one", "two"):
        until_finished(node, name)
    assert UNKNOWN not in node.log.read_text()
    assert set(before) == containers(node)
    assert read(node, "SELECT succeeded, failed FROM jobs") == [(1, 0), (1, 0)]
    assert read(node, "SELECT outcome, gone FROM job_pods") == [("succeeded", 0)] * 2


def test_pods_that_were_told_to_stop_are_stopped_in_order(node: PrivateNode) -> None:
    journal = node.base / "journal"
    journal.mkdir()
    mounts = {"volumeMounts": [{"name": "j", "mountPath": "/j"}]}
    trap = "trap 'sleep 2; echo {0} ended >>/j/lines; exit 0' TERM"
    life = trap + "; echo {0} started >>/j/lines; while :; do sleep 0.1; done"
    pod = {
        "terminationGracePeriodSeconds": 20,
        "volumes": [{"name": "j", "hostPath": {"path": str(journal)}}],
        "initContainers": [{**sidecar(life.format("side")), **mounts}],
        "containers": [container("main", life.format("main"), **mounts)],
    }

    def lines() -> list[str]:
        return (journal / "lines").read_text().splitlines() if (journal / "lines").exists() else []

    put(node, job("held", {}, **pod))
    until(lambda: lines() == ["side started", "main started"])
    put(node, job("held", {"suspend": True}, **pod))
    until(lambda: read(node, "SELECT mark FROM job_pods") == [("Suspended",)])
    lose_memory(node)
    node.start()
    until(lambda: not containers(node))
    assert lines() == ["side started", "main started", "main ended", "side ended"]
    assert UNKNOWN not in node.log.read_text()
    until(lambda: read(node, "SELECT outcome, gone FROM job_pods") == [("dropped", 1)])
    assert read(node, "SELECT succeeded, failed FROM jobs") == [(0, 0)]
    assert not is_finished(node, "held")
    with pytest.raises(subprocess.CalledProcessError):
        node.cli("wait", "job/held", "--for=condition=Complete", "--timeout=1s")
