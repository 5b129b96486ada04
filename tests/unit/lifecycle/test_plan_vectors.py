"""The decision vectors of LC 16, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.memory import Memory, ProbeResult
from minikubelet.lifecycle.plan import plan
from minikubelet.lifecycle.records import ObservedContainer, RecordState
from tests.unit.lifecycle.build import (
    PROBE,
    container,
    exited,
    memory,
    observed,
    pod,
    record,
    results,
    running,
    sandbox,
    sidecar,
)

SUCCESS, FAILURE, UNKNOWN = ProbeResult.SUCCESS, ProbeResult.FAILURE, ProbeResult.UNKNOWN
GONE_STATE, MADE = RecordState.UNKNOWN, RecordState.CREATED

UP = "up"  # running, startup succeeded
PENDING = "pending"  # running, startup unknown
DEAD_START = "startup failed"
DEAD_LIVE = "liveness failed"
CHANGED = "changed"


def vector_pod(policy: str) -> Pod:
    probes = {"startup_probe": PROBE, "liveness_probe": PROBE}
    return pod("m0", "m1", init=("i0", sidecar("s1", **probes), "i2", sidecar("s3", **probes)), policy=policy)


State = str | int | RecordState


@dataclass
class Row:
    """`records`: name -> exit code, record state, or one of the words above."""

    text: str
    policy: str
    kill_pod: bool = False
    init: tuple[int, ...] = ()
    mains: tuple[int, ...] = ()
    kill: tuple[str, ...] = ()
    records: dict[str, State] = field(default_factory=dict)


def scene(row: Row) -> tuple[Pod, list[ObservedContainer], Memory]:
    made: list[ObservedContainer] = []
    probes = {}
    probed = {name for name in row.records if name[0] in "sm"}
    for name, state in row.records.items():
        if isinstance(state, int):
            made.append(exited(name, state))
        elif isinstance(state, RecordState):
            made.append(record(name, state))
        else:
            made.append(running(name, **({"hash": "0ld"} if state == CHANGED else {})))
            if name in probed:
                probes[f"{name}-id"] = results(
                    startup={PENDING: UNKNOWN, DEAD_START: FAILURE}.get(state, SUCCESS),
                    liveness=FAILURE if state == DEAD_LIVE else SUCCESS,
                )
    subject = vector_pod(row.policy)
    return subject, made, memory(probes=probes)


ALL = {"m0": UP, "m1": UP, "s1": UP, "s3": UP}

READY = [
    Row("no records", "Always", init=(0,)),
    Row("i0 Running", "Always", records={"i0": UP}),
    Row("i0 Exited 0", "Always", init=(1,), records={"i0": 0}),
    Row("i0 Exited 1", "Always", init=(0,), records={"i0": 1}),
    Row("i0 Exited 1 Never", "Never", kill_pod=True, records={"i0": 1}),
    Row("s1 startup Unknown", "Never", records={"i0": 0, "s1": PENDING}),
    Row("s1 startup Success", "Never", init=(2,), records={"i0": 0, "s1": UP}),
    Row("s1 liveness Failure", "Never", init=(1, 2), kill=("s1",), records={"s1": DEAD_LIVE}),
    Row("s1 startup Failure", "Never", init=(1,), kill=("s1",), records={"s1": DEAD_START}),
    Row("s1 Exited 7, no i2", "Never", init=(1,), records={"s1": 7}),
    Row("s1 Exited 7, i2 Running", "Never", init=(1,), records={"s1": 7, "i2": UP}),
    Row("s1 Exited 7, i2 Exited 0", "Never", init=(1, 3), records={"s1": 7, "i2": 0}),
    Row("i2 Exited 2 OnFailure", "OnFailure", init=(2,), records={"s1": UP, "i2": 2}),
    Row("i2 Exited 2 Never", "Never", kill_pod=True, records={"s1": UP, "i2": 2}),
    Row("s3 startup Unknown", "Always", records={"s1": UP, "i2": 0, "s3": PENDING}),
    Row("sidecars started, no mains", "Always", mains=(0, 1), records={"s1": UP, "s3": UP}),
    Row("s1 Exited 0, s3 started", "Always", init=(1,), mains=(0, 1), records={"s1": 0, "s3": UP}),
    Row("only mains Running", "Always", init=(1, 3), records={"m0": UP, "m1": UP}),
    Row("m1 Exited 1, sidecars Exited 1", "OnFailure", init=(1, 3), mains=(1,),
        records={"m0": UP, "m1": 1, "s1": 1, "s3": 1}),
    # README 5: the kubelet would start 3 only (LC 4.2.5); once initialised, mains do not wait for a sidecar.
    Row("mains Exited 1, s3 Exited 1", "Always", init=(3,), mains=(0, 1),
        records={"m0": 1, "m1": 1, "s3": 1, "s1": UP}),
    Row("mains Exited 1, sidecars started", "Always", mains=(0, 1), records={"m0": 1, "m1": 1, "s1": UP, "s3": UP}),
    Row("mains Exited 0 OnFailure", "OnFailure", kill_pod=True, records={"m0": 0, "m1": 0, "s1": UP, "s3": UP}),
    Row("mains Exited Never", "Never", kill_pod=True, records={"m0": 0, "m1": 3, "s1": UP, "s3": UP}),
    Row("m1 Running, s1 Exited 0", "Never", init=(1,), records={"m0": 0, "m1": UP, "s1": 0, "s3": UP}),
    Row("image of s1 changed", "Never", init=(1,), kill=("s1",), records={**ALL, "s1": CHANGED}),
    Row("image of m1 changed", "Never", mains=(1,), kill=("m1",), records={**ALL, "m1": CHANGED}),
    Row("m1 liveness Failure Never", "Never", kill=("m1",), records={**ALL, "m1": DEAD_LIVE}),
    Row("last main liveness Failure Never", "Never", kill_pod=True, kill=("m1",),
        records={**ALL, "m0": 0, "m1": DEAD_LIVE}),
    Row("m1 liveness Failure Always", "Always", mains=(1,), kill=("m1",), records={**ALL, "m1": DEAD_LIVE}),
    Row("s3 liveness Failure", "Never", init=(3,), kill=("s3",), records={**ALL, "s3": DEAD_LIVE}),
    Row("m1 Unknown", "Never", mains=(1,), kill=("m1",), records={**ALL, "m1": GONE_STATE}),
    Row("i2 Unknown OnFailure", "OnFailure", init=(2,), kill=("i2",), records={"s1": UP, "i2": GONE_STATE}),
    Row("i2 Unknown Never", "Never", kill_pod=True, records={"s1": UP, "i2": GONE_STATE}),
    Row("i2 Created", "Never", init=(2,), records={"s1": UP, "i2": MADE}),
]  # fmt: skip


@pytest.mark.parametrize("row", READY, ids=lambda row: f"LC-16.1 {row.text}")
def test_a_ready_sandbox(row: Row) -> None:
    subject, records, remembered = scene(row)
    if any(state in (DEAD_LIVE, DEAD_START) for name, state in row.records.items() if name.startswith("m")):
        subject = with_probed_mains(subject)
    found = plan(subject, observed(*records), remembered)
    assert (found.kill_pod, found.create_sandbox, found.attempt) == (row.kill_pod, False, 0)
    assert found.init_to_start == row.init
    assert found.to_start == row.mains
    if row.kill or not row.kill_pod:
        assert tuple(order.record.name for order in found.to_kill) == row.kill


def with_probed_mains(subject: Pod) -> Pod:
    mains = (container(c.name, liveness_probe=PROBE, startup_probe=PROBE) for c in subject.spec.containers)
    return pod(*mains, init=subject.spec.init_containers, policy=subject.spec.restart_policy)


@pytest.mark.parametrize(
    ("text", "policy", "records", "dead", "attempt", "create", "init"),
    [
        ("all Exited, m1 1", "Always", {"i0": 0, "s1": 0, "i2": 0, "s3": 0, "m0": 0, "m1": 1}, True, 1, True, (0,)),
        ("all Exited, m1 1", "Never", {"i0": 0, "s1": 0, "i2": 0, "s3": 0, "m0": 0, "m1": 1}, True, 1, False, ()),
        ("mains Exited 0", "OnFailure", {"m0": 0, "m1": 0}, True, 1, False, ()),
        ("m1 Exited 1", "OnFailure", {"m0": 0, "m1": 1}, True, 1, True, (0,)),
        ("only i0 Exited 0", "OnFailure", {"i0": 0}, True, 1, True, (0,)),
        ("only i0 Exited 0", "Never", {"i0": 0}, True, 1, False, ()),
        ("sandbox died during creation", "Never", {}, True, 1, True, (0,)),
        ("no sandbox", "Never", {}, False, 0, True, (0,)),
    ],
    ids=lambda value: f"LC-16.2 {value}" if isinstance(value, str) else "",
)
def test_a_new_sandbox_is_needed(
    *, text: str, policy: str, records: dict[str, int], dead: bool, attempt: int, create: bool, init: tuple[int, ...]
) -> None:
    made = [exited(name, code) for name, code in records.items()]
    sandboxes = (sandbox(ready=False),) if dead else ()
    found = plan(vector_pod(policy), observed(*made, sandboxes=sandboxes), memory())
    assert (found.attempt, found.kill_pod, found.create_sandbox) == (attempt, True, create)
    assert (found.init_to_start, found.to_start) == (init, ())
