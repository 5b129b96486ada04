"""The daemon is killed again and again while Jobs run on a real containerd: nothing is lost, nothing counted twice.

JOBS 12 and row 41 of its test table. `MINIKUBELET_KILLS` says how often to kill (12 without it).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("MINIKUBELET_KILLS", "12"))
COMPLETIONS = 30
#: One in five fails once; the folder it shares with the others remembers that.
WORK = """
i=$JOB_COMPLETION_INDEX
sleep 0.7
if [ $((i % 5)) = 0 ] && [ ! -e /s/failed-$i ]; then touch /s/failed-$i; echo "fail $i" >> /s/lines; exit 1; fi
echo "done $i" >> /s/lines
"""
SIDECAR = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def node() -> Iterator[PrivateNode]:
    here = PrivateNode()
    try:
        here.create()
        yield here
    finally:
        here.destroy()


def container(name: str, script: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        **fields,
    }


def job(name: str, shared: Path) -> dict[str, Any]:
    main = container("main", WORK, volumeMounts=[{"name": "s", "mountPath": "/s"}])
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": "s", "hostPath": {"path": str(shared)}}],
        "initContainers": [container("shipper", SIDECAR, restartPolicy="Always")],
        "containers": [main],
    }
    spec = {
        "completionMode": "Indexed",
        "completions": COMPLETIONS,
        "parallelism": 4,
        "backoffLimitPerIndex": 3,
        "template": {"spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def read(node: PrivateNode, query: str) -> list[Any]:
    path = node.base / "minikubelet" / "minikubelet.db"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def finished(node: PrivateNode) -> bool:
    rows = read(node, "SELECT conditions FROM jobs")
    return bool(rows) and all(b"Complete" in conditions or b'"Failed"' in conditions for (conditions,) in rows)


def wait(node: PrivateNode, query: str, *, within: float) -> None:
    """Until the query finds nothing."""
    deadline = time.monotonic() + within
    while found := read(node, query):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_jobs_are_right_whenever_the_daemon_is_killed(node: PrivateNode) -> None:
    dice = random.Random()  # noqa: S311
    kills, number = 0, 0
    node.start()
    while kills < KILLS:
        number += 1
        shared = node.base / f"shared-{number}"
        shared.mkdir()
        manifest = node.manifests / f"job-{number}.json"
        manifest.write_text(json.dumps(job(f"j{number}", shared)))
        deadline = time.monotonic() + 900
        while True:
            time.sleep(dice.uniform(0, 3))
            if finished(node):
                break
            assert time.monotonic() < deadline, node.log.read_text()[-5000:]
            if kills < KILLS:
                node.stop(signal.SIGKILL)
                kills += 1
                node.start()
        verify(node, shared)
        manifest.unlink()
        wait(node, "SELECT uid FROM jobs", within=60)
    assert node.ctr("containers", "ls", "--quiet").split() == []


def containers(node: PrivateNode, name: str) -> Any:
    """How a pod's containers are, for the message of a failed assertion."""
    pods = [pod for pod in node.get("/pods")["items"] if pod["metadata"]["name"] == name]
    return "\n".join(json.dumps(pod["status"]["containerStatuses"]) for pod in pods)


def verify(node: PrivateNode, shared: Path) -> None:
    lines = (shared / "lines").read_text().split("\n")[:-1]
    fail_first = [index for index in range(COMPLETIONS) if index % 5 == 0]
    for index in range(COMPLETIONS):
        own = [line.split()[0] for line in lines if line.split()[1] == str(index)]
        assert own == (["fail", "done"] if index in fail_first else ["done"]), (index, own)
    ((succeeded, failed, completed, failed_indexes, conditions),) = read(
        node, "SELECT succeeded, failed, completed, failed_indexes, conditions FROM jobs"
    )
    assert [each["type"] for each in json.loads(conditions)] == ["SuccessCriteriaMet", "Complete"]
    unexpected = [
        (name, codes, containers(node, name))
        for name, index, codes in read(
            node, "SELECT name, idx, exit_codes FROM job_pods WHERE outcome = 'failed' ORDER BY created_at"
        )
        if index not in fail_first or json.loads(codes)["main"] != 1
    ]
    assert not unexpected
    assert (succeeded, failed, completed, failed_indexes) == (COMPLETIONS, len(fail_first), f"0-{COMPLETIONS - 1}", "")
    outcomes = dict(read(node, "SELECT outcome, count(*) FROM job_pods GROUP BY outcome"))
    assert outcomes == {"succeeded": COMPLETIONS, "failed": len(fail_first)}
