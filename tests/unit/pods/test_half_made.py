"""What starts that were cut short leave behind, as containerd reports it (CD 5): it counts as nothing."""

from __future__ import annotations

import msgspec
import pytest

from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Action, CreateSandbox, RemoveContainer, StopSandbox
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.notes import names_taken
from minikubelet.lifecycle.records import Observed, ObservedContainer, without
from minikubelet.pods.refusals import refusal_event
from minikubelet.pods.starter import half_made
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.pb import cri_pb2
from minikubelet.runtime.records import container_entry

#: Go's zero time in nanoseconds, as far as an int64 holds it.
YEAR_1 = -6795364578871345152
EXITED = cri_pb2.CONTAINER_EXITED


def record(
    state: cri_pb2.ContainerState.ValueType,
    *,
    code: int = 0,
    reason: str = "",
    message: str = "",
    started: int = 0,
    finished: int = 0,
) -> ObservedContainer:
    status = cri_pb2.ContainerStatus(
        id="c",
        metadata=cri_pb2.ContainerMetadata(name="main"),
        labels={labels.POD_UID: "u"},
        state=state,
        created_at=10**18,
        started_at=started,
        finished_at=finished,
        exit_code=code,
        reason=reason,
        message=message,
    )
    return container_entry(status, sandbox_id="s").record


@pytest.mark.parametrize(
    ("found", "cut"),
    [
        (record(cri_pb2.CONTAINER_CREATED), True),
        (record(EXITED, code=128, reason="StartError", message="context canceled", finished=10**18), True),
        (record(EXITED, code=128, reason="StartError", message="no such file", finished=10**18), False),
        (record(EXITED, code=137, reason="Error", finished=YEAR_1), True),
        (record(EXITED, code=137, reason="Error", finished=10**18), True),
        (record(EXITED, code=137, reason="Error", started=YEAR_1, finished=YEAR_1), True),
        (record(EXITED, code=137, reason="Error", started=10**18, finished=10**18), False),
        (record(cri_pb2.CONTAINER_RUNNING, started=10**18), False),
    ],
)
def test_a_container_that_never_ran_is_half_made(found: ObservedContainer, cut: bool) -> None:
    observed = Observed(containers=(found,))
    assert half_made(observed, Memory(accepted_at=0)) == (["c"] if cut else [])
    starting = Memory(accepted_at=0, in_flight=frozenset({"start:main"}))
    assert half_made(observed, starting) == []


def test_one_that_cannot_be_removed_is_hidden_and_its_count_is_taken() -> None:
    left = msgspec.structs.replace(record(cri_pb2.CONTAINER_CREATED), restart_count=3)
    other = msgspec.structs.replace(left, id="d", name="other")
    assert without(Observed(containers=(left, other)), [left]).containers == (other,)
    memory = names_taken(Memory(accepted_at=0, restart_counts={"main": 1, "side": 5}), [left])
    assert memory.restart_counts == {"main": 3, "side": 5}
    assert names_taken(memory, [msgspec.structs.replace(left, restart_count=2)]) is memory


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (RemoveContainer(name="main", container_id="half", logs=False), "Failed"),
        (RemoveContainer(name="main", container_id="whole", logs=False), "FailedKillPod"),
        (StopSandbox(sandbox_id="s"), "FailedKillPod"),
        (CreateSandbox(attempt=0), None),
    ],
)
def test_a_refusal_that_lasts_is_told_of(action: Action, reason: str | None) -> None:
    event = refusal_event(action, OSError("no"), half_made={"half"})
    assert (event and event.reason) == reason


def test_what_was_being_removed_for_it_stays_half_made_whatever_the_removal_makes_of_it() -> None:
    killed = record(EXITED, code=137, reason="Error", started=10**18, finished=10**18)
    observed = Observed(containers=(killed,))
    memory = notes.half_made(Memory(accepted_at=0), "c", observed=observed)
    assert half_made(observed, memory) == ["c"]
    assert half_made(observed, notes.came_through(memory, "c")) == []
    assert notes.half_made(memory, "next", observed=Observed()).half_made == {"next"}
