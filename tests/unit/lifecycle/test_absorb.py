from __future__ import annotations

from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.records import Observed, RecordState
from tests.unit.lifecycle.build import T0, pod, record, sandbox


def counted(state: RecordState, **memory: object) -> int | None:
    seen = Observed(sandboxes=(sandbox(),), containers=(record("m", state, code=128, restart_count=3),))
    given = Memory(accepted_at=T0, **memory)  # type: ignore[arg-type]
    return decide(pod("m", policy="Never"), seen, given, T0 + 10).memory.restart_counts.get("m")


def test_what_never_ran_is_not_counted_as_a_start() -> None:
    assert counted(RecordState.CREATED) is None
    assert counted(RecordState.EXITED, in_flight=frozenset({"start:m"})) is None  # may turn out to have been cut short
    assert counted(RecordState.EXITED) == 3
    assert counted(RecordState.RUNNING) == 3
