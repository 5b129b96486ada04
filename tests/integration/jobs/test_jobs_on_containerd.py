"""Rows of JOBS 17 where it matters how containers really end: sidecars, signals, exit codes, deadlines, logs."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

POLITE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
DEAF = "trap '' TERM; while :; do sleep 0.1; done"
SULLEN = "trap 'exit 7' TERM; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    here = PrivateNode()
    try:
        here.create()
        here.start()
        yield here
    finally:
        here.destroy()


def container(name: str, script: str, **fields: Any) -> dict[str, Any]:
    image = {"image": "busybox:1.36", "imagePullPolicy": "IfNotPresent"}
    return {"name": name, "command": ["sh", "-c", script], **image, **fields}


def put(node: PrivateNode, name: str, spec: dict[str, Any], **pod: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, **pod}}
    job = {"metadata": {"name": name}, "spec": {**spec, "template": template}}
    text = json.dumps({"apiVersion": "batch/v1", "kind": "Job", **job})
    (node.manifests / f"{name}.json").write_text(text)


def status(node: PrivateNode, name: str) -> dict[str, Any]:
    found: dict[str, Any] = node.get(f"/jobs/default/{name}")["status"]
    return found


def wait(node: PrivateNode, name: str, condition: str, *, timeout: str = "60s") -> None:
    for _ in range(100):  # until the manifest has been read
        if any(job["metadata"]["name"] == name for job in node.get("/jobs")["items"]):
            break
        time.sleep(0.05)
    node.cli("wait", f"job/{name}", f"--for=condition={condition}", f"--timeout={timeout}")


def pods(node: PrivateNode, job: str) -> list[dict[str, Any]]:
    found = node.get("/pods")["items"]
    return [pod for pod in found if pod["metadata"].get("labels", {}).get("job-name") == job]


def until_none(found: Callable[[], list[Any]]) -> None:
    deadline = time.monotonic() + 20
    while found():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ended(pod: dict[str, Any], name: str) -> dict[str, Any]:
    entries = pod["status"]["containerStatuses"] + pod["status"].get("initContainerStatuses", [])
    state: dict[str, Any] = next(each["state"] for each in entries if each["name"] == name)
    end: dict[str, Any] = state["terminated"]
    return end


@pytest.mark.parametrize(
    ("row", "script", "code", "seconds"),
    [(10, POLITE, 0, (1.0, 4.0)), (11, SULLEN, 7, (1.0, 4.0)), (12, DEAF, 137, (4.0, 7.5))],
)
def test_a_job_completes_when_its_sidecar_has_ended_however_it_ends(
    node: PrivateNode, row: int, script: str, code: int, seconds: tuple[float, float]
) -> None:
    name = f"row-{row}"
    put(
        node,
        name,
        {},
        terminationGracePeriodSeconds=3,
        initContainers=[container("side", script, restartPolicy="Always")],
        containers=[container("main", "sleep 1")],
    )
    wait(node, name, "Complete")
    (pod,) = pods(node, name)
    assert pod["status"]["phase"] == "Succeeded"
    assert ended(pod, "side")["exitCode"] == code
    assert status(node, name)["succeeded"] == 1
    ((took,),) = read_times(node, name)
    assert seconds[0] <= took <= seconds[1]


def read_times(node: PrivateNode, name: str) -> list[tuple[float]]:
    connection = sqlite3.connect(f"file:{node.base}/minikubelet/minikubelet.db?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(
            "SELECT jobs.completion_time - job_pods.created_at FROM jobs, job_pods"
            " WHERE job_pods.job_uid = jobs.uid AND jobs.name = ?",
            (name,),
        ).fetchall()
    finally:
        connection.close()


def test_a_plain_second_container_that_never_ends_keeps_the_job_active(node: PrivateNode) -> None:
    put(node, "control", {}, containers=[container("main", "exit 0"), container("second", POLITE)])
    with pytest.raises(subprocess.CalledProcessError):
        wait(node, "control", "Complete", timeout="4s")
    found = status(node, "control")
    assert (found["active"], found.get("conditions", [])) == (1, [])


def test_a_failed_pod_keeps_its_log_and_its_exit_code(node: PrivateNode) -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    put(
        node,
        "fails",
        {"podFailurePolicy": policy},
        initContainers=[container("side", POLITE, restartPolicy="Always")],
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


def test_the_deadline_stops_pods_and_fails_the_job_when_they_are_gone(node: PrivateNode) -> None:
    spec = {"activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2}
    put(node, "late", spec, containers=[container("main", DEAF)])
    wait(node, "late", "FailureTarget")
    assert status(node, "late")["terminating"] == 2
    wait(node, "late", "Failed")
    found = status(node, "late")
    assert (found["failed"], found["terminating"]) == (2, 0)
    until_none(lambda: pods(node, "late"))


def test_indexed_pods_know_their_index_and_their_name(node: PrivateNode) -> None:
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


def test_a_job_whose_time_to_live_is_over_leaves_nothing(node: PrivateNode) -> None:
    put(node, "brief", {"ttlSecondsAfterFinished": 1}, containers=[container("main", "true")])
    wait(node, "brief", "Complete")
    until_none(lambda: [job for job in node.get("/jobs")["items"] if job["metadata"]["name"] == "brief"])
    assert not pods(node, "brief")
    assert not list(node.logs.glob("*brief*"))
    assert (node.manifests / "brief.json").exists()
