"""The daemon is killed again and again while Jobs run on a real containerd: nothing is lost, nothing counted twice.

JOBS 12 and row 41 of its test table. `MINIKUBELET_KILLS` says how often to kill at least (12 without it).
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.jobs.desk import (
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
    until,
    until_finished,
)
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("MINIKUBELET_KILLS", "12"))
COMPLETIONS = 30
#: One in five fails once; the folder it shares with the others remembers that. Each takes its time, so that the kills
#: find all kinds of moments.
WORK = """
i=$JOB_COMPLETION_INDEX
sleep 0.7
if [ $((i % 5)) = 0 ] && [ ! -e /s/failed-$i ]; then touch /s/failed-$i; echo "fail $i" >> /s/lines; exit 1; fi
echo "done $i" >> /s/lines
"""
FAIL_FIRST = [index for index in range(COMPLETIONS) if index % 5 == 0]
#: The line comes last: a program whose start the runtime gives up, since its client died in that very moment, may have
#: run for some milliseconds, and is started anew.
DICE = """
sleep 0.5
echo $HOSTNAME >> /s/lines
exit $(( $(od -An -N1 -tu1 /dev/urandom) % 4 == 0 ))
"""


@pytest.fixture
def node() -> Iterator[PrivateNode]:
    with private_node() as here:
        yield here


def sharing(shared: Path, script: str) -> dict[str, Any]:
    """Fields of a pod whose main container has the folder at /s, beside a sidecar."""
    return {
        "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": "s", "hostPath": {"path": str(shared)}}],
        "initContainers": [sidecar()],
        "containers": [container("main", script, volumeMounts=[{"name": "s", "mountPath": "/s"}])],
    }


def test_an_indexed_job_is_right_whenever_the_daemon_is_killed(node: PrivateNode) -> None:
    """At random moments, those in which the daemon begins included. One Job follows the other until all kills were."""
    dice = random.Random()  # noqa: S311
    kills, number = 0, 0
    spec = {
        "completionMode": "Indexed",
        "completions": COMPLETIONS,
        "parallelism": 4,
        "backoffLimitPerIndex": 3,
    }
    while kills < KILLS:
        number += 1
        shared = node.base / f"shared-{number}"
        shared.mkdir()
        name = f"j{number}"
        put(node, job(name, spec, **sharing(shared, WORK)))
        while kills < KILLS and not is_finished(node, name):
            time.sleep(dice.uniform(0, 3))
            crash(node)
            kills += 1
            node.start(serving=dice.random() < 0.7)
        node.start()
        until_finished(node, name, within=300)
        verify(node, shared)
        (node.manifests / f"{name}.json").unlink()
        until(lambda: not read(node, "SELECT uid FROM jobs"))
        assert not containers(node)


def verify(node: PrivateNode, shared: Path) -> None:
    """Exactly what was done is counted, and each index was done once, after it had failed if it does that."""
    lines = (shared / "lines").read_text().splitlines()
    for index in range(COMPLETIONS):
        own = [line.split()[0] for line in lines if line.split()[1] == str(index)]
        assert own == (["fail", "done"] if index in FAIL_FIRST else ["done"]), (index, own)
    ((succeeded, failed, completed, failed_indexes, found),) = read(
        node, "SELECT succeeded, failed, completed, failed_indexes, conditions FROM jobs"
    )
    assert [each["type"] for each in json.loads(found)] == ["SuccessCriteriaMet", "Complete"]
    failures = read(node, "SELECT name, idx, exit_codes FROM job_pods WHERE outcome = 'failed' ORDER BY created_at")
    unexpected = [
        (name, codes, statuses(node, name))
        for name, index, codes in failures
        if index not in FAIL_FIRST or json.loads(codes)["main"] != 1
    ]
    assert not unexpected
    assert (succeeded, failed, completed, failed_indexes) == (COMPLETIONS, len(FAIL_FIRST), f"0-{COMPLETIONS - 1}", "")
    outcomes = dict(read(node, "SELECT outcome, count(*) FROM job_pods GROUP BY outcome"))
    assert outcomes == {"succeeded": COMPLETIONS, "failed": len(FAIL_FIRST)}


def statuses(node: PrivateNode, name: str) -> str:
    """How a pod's containers are, for the message of a failed assertion."""
    pods = [pod for pod in node.get("/pods")["items"] if pod["metadata"]["name"] == name]
    return "\n".join(json.dumps(pod["status"]["containerStatuses"]) for pod in pods)


@pytest.mark.parametrize("completions", [30 if KILLS > 12 else 12])
def test_row_41_random_exit_codes_and_a_kill_every_second(node: PrivateNode, completions: int) -> None:
    shared = node.base / "shared"
    shared.mkdir()
    crash(node)
    node.command = (sys.executable, str(Path(__file__).with_name("quick_daemon.py")))
    node.start()
    spec = {"completions": completions, "parallelism": 5, "backoffLimit": 1000}
    put(node, job("dice", spec, **sharing(shared, DICE)))
    kills = 0
    while kills < KILLS and not is_finished(node, "dice"):
        time.sleep(1)
        crash(node)
        kills += 1
        node.start(serving=False)
    node.start()
    until_finished(node, "dice", within=600)
    assert conditions(node, "dice") == ["SuccessCriteriaMet", "Complete"]
    lines = Counter((shared / "lines").read_text().split())
    assert set(lines.values()) == {1}, lines
    outcomes = dict(read(node, "SELECT name, outcome FROM job_pods"))
    assert {name for name, outcome in outcomes.items() if outcome == "succeeded"} <= set(lines)
    assert set(lines) <= set(outcomes)
    ((succeeded, failed),) = read(node, "SELECT succeeded, failed FROM jobs")
    assert succeeded == completions
    assert Counter(outcomes.values()) == Counter(succeeded=succeeded, failed=failed)
