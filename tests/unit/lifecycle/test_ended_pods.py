"""A pod that its owner or the node ends: it is stopped in order and then stays as it is (JOBS 4, LC 10)."""

from __future__ import annotations

import pytest

from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import StopCause
from tests.unit.lifecycle.build import pod, sidecar
from tests.unit.lifecycle.simulator import Life, World


def ended(policy: str, *, term_code: int) -> World:
    subject = pod("m", init=(sidecar("s1"), sidecar("s2")), policy=policy)
    world = World(subject, {"m": [Life(on_term=2, term_code=term_code)]}).run(10)
    world._note(lambda memory: notes.request_stop(memory, pod=subject, cause=StopCause.ENDED, now=world.now))
    world._decide()
    return world.run(100)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize(("term_code", "phase"), [(0, "Succeeded"), (143, "Failed")])
def test_its_phase_is_that_of_how_its_mains_ended(policy: str, term_code: int, phase: str) -> None:
    world = ended(policy, term_code=term_code)
    assert world.phases[-1] == phase
    assert world.order("term") == ["m", "s2", "s1"]


def test_its_records_stay_and_nothing_starts_again() -> None:
    world = ended("OnFailure", term_code=1)
    assert len(world.times("m", "start")) == 1
    assert {record.name for record in world.observed().containers} == {"m", "s1", "s2"}
    assert world.finished
