"""Which pods `status` names, and with what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from minikubelet.cli.unwell import unwell
from minikubelet.cli.views import Event, Pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENTS = [
    {"type": "Warning", "reason": "FailedMount", "message": "no volume", "involvedObject": {"kind": "Pod", "uid": "u"}},
    {"type": "Warning", "reason": "FailedCreatePodSandBox", "message": "no\nCNI", "involvedObject": {"uid": "u"}},
    {"type": "Normal", "reason": "Pulled", "message": "fine", "involvedObject": {"uid": "u"}},
    {"type": "Warning", "reason": "Failed", "message": "another", "involvedObject": {"uid": "v"}},
]


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "m", "state": state}]


@pytest.mark.parametrize(
    ("status", "events", "expected"),
    [
        pytest.param({"phase": "Running"}, EVENTS, "", id="runs"),
        pytest.param({"phase": "Succeeded", "reason": "Completed"}, EVENTS, "", id="done"),
        pytest.param({"phase": "Pending"}, [], "", id="about to begin"),
        pytest.param(
            {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ContainerCreating"})},
            [],
            "",
            id="its containers are being made",
        ),
        pytest.param(
            {"phase": "Pending"}, EVENTS, "Pending: FailedCreatePodSandBox: no CNI", id="the last warning about it"
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ErrImagePull", "message": "gone"})},
            EVENTS,
            "ErrImagePull: m: gone",
            id="what its container waits for",
        ),
        pytest.param(
            {"phase": "Pending", "reason": "OutOfcpu", "message": "no room"}, [], "OutOfcpu: no room", id="no room"
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": container(terminated={"exitCode": 3, "reason": "Error"})},
            [],
            "Error: m ended with exit code 3",
            id="failed",
        ),
        pytest.param(
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "message": "m is not ready"}]},
            [],
            "Running: m is not ready",
            id="not ready",
        ),
    ],
)
def test_a_line_for_each_pod_that_is_not_well(
    status: dict[str, Any], events: list[dict[str, Any]], expected: str
) -> None:
    pod = {"metadata": {"name": "web", "namespace": "d", "uid": "u"}, "spec": {"containers": [{"name": "m"}]}}
    found = unwell(
        [msgspec.convert(pod | {"status": status}, Pod)], [msgspec.convert(it, Event) for it in events], now=NOW
    )
    assert found == ([f"d/web: {expected}"] if expected else [])


def test_a_pod_that_ends_is_not_named() -> None:
    going = {"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Failed"}}
    assert unwell([msgspec.convert(going, Pod)], [], now=NOW) == []
