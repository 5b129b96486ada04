"""LC 12.11, GC-1: what is removed, and when. And what memory forgets."""

from __future__ import annotations

import msgspec
import pytest

from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Decision, RemoveContainer, RemoveSandbox
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import (
    BackoffEntry,
    HookState,
    Kill,
    KillReason,
    Memory,
    ProbeResult,
    StartError,
    StopCause,
    Stopping,
)
from minikubelet.lifecycle.records import ObservedContainer, RecordState
from tests.unit.lifecycle.build import (
    T0,
    exited,
    memory,
    observed,
    pod,
    record,
    results,
    running,
    sandbox,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World


def removed(decision: Decision) -> list[str]:
    return [a.container_id for a in decision.actions if isinstance(a, RemoveContainer)]


@pytest.mark.parametrize(
    ("records", "gone"),
    [
        ([running("m", id="c"), exited("m", id="b"), exited("m", id="a")], ["a"]),
        ([running("m", id="b"), exited("m", id="a")], []),
        ([running("m", id="c"), record("m", RecordState.CREATED, id="b"), exited("m", id="a")], ["b"]),
    ],
)
def test_gc_1_the_newest_dead_record_is_kept(records: list[ObservedContainer], gone: list[str]) -> None:
    """LC 1.3.5."""
    decision = decide(pod(), observed(*records), memory(), T0 + 10)
    assert removed(decision) == gone
    assert all(a.logs for a in decision.actions if isinstance(a, RemoveContainer))


def test_gc_1_of_dead_ones_only_the_newest_is_kept() -> None:
    seen = observed(exited("m", id="c"), exited("m", id="b"), exited("m", id="a"))
    assert removed(decide(pod(policy="Never"), seen, memory(), T0 + 10)) == ["b", "a"]


def test_gc_1_not_while_its_container_is_being_started_or_stopped() -> None:
    seen = observed(running("m", id="c"), exited("m", id="b"), exited("m", id="a"))
    for key in ("start:m", "stop:a:30"):
        assert removed(decide(pod(), seen, memory(in_flight=frozenset({key})), T0 + 10)) == []


def test_gc_1_the_last_state_outlives_its_record() -> None:
    world = World(pod("m"), {"m": [Life(1, code=n) for n in (1, 2, 3)] + [Life()]}).run(100)
    assert len(world.records) == 2
    last = status_of(world.status, "m").last_state.terminated
    assert last is not None
    assert last.exit_code == 3


def test_lc_12_11_older_sandboxes_go_when_they_are_empty() -> None:  # GC-2
    three = (sandbox("c", attempt=2), sandbox("b", attempt=1, ready=False), sandbox("a", ready=False))
    seen = observed(running("m", sandbox_id="c"), exited("m", id="old", sandbox_id="b"), sandboxes=three)
    decision = decide(pod(), seen, memory(), T0 + 10)
    assert decision.actions == (RemoveSandbox(sandbox_id="a"),)


def test_lc_12_11_the_newest_records_of_a_pod_that_ended_are_kept() -> None:
    world = World(pod("m", init=("i",), policy="Never"), {"i": [Life(1)], "m": [Life(1)]}).run()
    assert {r.name for r in world.records} == {"i", "m"}
    assert [s.ready for s in world.sandboxes] == [False]


def test_lc_12_11_a_removed_pod_loses_its_records_then_its_sandboxes() -> None:  # GC-3
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    done = memory(stopping=stop, stopped_sandboxes=frozenset({"sb0"}))
    down = (sandbox(ready=False),)
    first = decide(pod(), observed(exited("m"), sandboxes=down), done, T0 + 12)
    assert first.actions == (RemoveContainer(name="m", container_id="m-id", logs=True),)
    then = decide(pod(), observed(sandboxes=down), first.memory, T0 + 12)
    assert then.actions == (RemoveSandbox(sandbox_id="sb0"),)
    assert not then.finished
    came_back = notes.action_finished(notes.action_finished(then.memory, "remove:m-id"), "remove-sandbox:sb0")
    assert decide(pod(), observed(sandboxes=()), came_back, T0 + 12).finished


FULL = Memory(
    accepted_at=T0,
    backoff={"k": BackoffEntry(delay=10, last_update=T0)},
    start_errors={"m": StartError(reason="r", message="m", at=T0, retry_at=T0 + 1)},
    start_keys={"m": "k"},
    probes={"gone": results(startup=ProbeResult.SUCCESS), "m-id": results(liveness=ProbeResult.FAILURE)},
    post_start={"gone": HookState.DONE, "m-id": HookState.PENDING, "m": HookState.PENDING},
    post_start_errors={"m-id": StartError(reason="r", message="m", at=T0, retry_at=T0 + 1)},
    pre_stop={"gone": HookState.DONE, "m-id": HookState.FAILED, "m": HookState.DONE},
    kills={cid: Kill(reason=KillReason.CHANGED, message="", began=T0, grace=3) for cid in ("gone", "m-id")},
    signalled=frozenset({"gone", "m-id"}),
    stop_by={"gone": T0, "m-id": T0},
    stopped_sandboxes=frozenset({"gone", "sb0"}),
    init_done={"gone": frozenset({"i"}), "sb0": frozenset({"i"})},
    initialized=frozenset({"gone", "sb0"}),
    stopping=Stopping(cause=StopCause.REMOVED, began=T0, grace=3),
    deadline_exceeded=True,
    stopped=True,
    restart_counts={"m": 3, "x": 4},
    restarting_all=frozenset({"m"}),
    in_flight=frozenset({"start:m"}),
)


def test_what_belongs_to_gone_records_is_forgotten() -> None:
    left = notes.forget_records(FULL, observed(running("m")))
    for field in (
        "probes",
        "post_start",
        "pre_stop",
        "kills",
        "signalled",
        "stop_by",
        "stopped_sandboxes",
        "init_done",
    ):
        assert "gone" not in getattr(left, field), field
        assert getattr(left, field), field
    assert left.initialized == {"sb0"}
    assert {"m-id", "m"} == set(left.post_start) == set(left.pre_stop)
    assert left.restart_counts == FULL.restart_counts


def test_memory_of_a_pod_that_restarts_for_ever_does_not_grow() -> None:
    world = World(pod("m", init=(sidecar("s"),)), {"m": [Life(400, code=1)], "s": [Life(350)]}).run(20_000)
    assert len(world.times("m", "start")) > 25
    stored = world.memory
    assert max(len(v) for f in stored.__struct_fields__ if isinstance(v := getattr(stored, f), dict | frozenset)) <= 4


def test_nothing_is_forgotten_while_something_is_being_started() -> None:
    busy = memory(in_flight=frozenset({"start:m"}), probes={"new": results(startup=ProbeResult.SUCCESS)})
    assert "new" in decide(pod(), observed(), busy, T0 + 1).memory.probes


def test_memory_survives_the_store() -> None:
    world = World(pod("m")).run(10)
    full = msgspec.structs.replace(FULL, status=world.status)
    assert msgspec.json.decode(msgspec.json.encode(full), type=Memory) == full


def test_restored_memory_has_nothing_in_flight_and_no_signal() -> None:
    kept = notes.restore(FULL)
    assert (kept.in_flight, kept.signalled, kept.stop_by) == (frozenset(), frozenset(), {})
    assert kept.pre_stop == FULL.pre_stop


@pytest.mark.parametrize("kind", ["startup", "liveness", "readiness"])
def test_a_probe_result_changes_its_kind_only(kind: notes.ProbeKind) -> None:
    before = memory(probes={"x": results(**{kind: ProbeResult.UNKNOWN})})
    after = notes.probe_result(before, "x", kind, ProbeResult.SUCCESS)
    assert after.probes["x"] == results(**{kind: ProbeResult.SUCCESS})
    assert notes.probe_result(memory(), "y", kind, ProbeResult.FAILURE).probes["y"] == results(
        **{kind: ProbeResult.FAILURE}
    )
