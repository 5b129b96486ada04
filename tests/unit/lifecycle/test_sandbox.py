"""LC 3: when a new sandbox is made, and what happens to the containers."""

from __future__ import annotations

import pytest

from minikubelet.lifecycle.actions import CreateSandbox, RemoveContainer, StopContainer, StopSandbox
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import StopCause, Stopping
from minikubelet.lifecycle.plan import plan
from minikubelet.lifecycle.records import ObservedSandbox
from minikubelet.lifecycle.sandbox import new_attempt
from tests.unit.lifecycle.build import (
    T0,
    container,
    exited,
    memory,
    observed,
    pod,
    running,
    sandbox,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World


@pytest.mark.parametrize(
    ("sandboxes", "host_network", "attempt"),
    [
        pytest.param((), False, 0, id="LC-3.1.1 none"),
        pytest.param((sandbox("b", attempt=4), sandbox("a", attempt=3)), False, 5, id="LC-3.1.2 two ready"),
        pytest.param((sandbox("a", attempt=2, ready=False),), False, 3, id="LC-3.1.3 not ready"),
        pytest.param((sandbox("b", attempt=2, ready=False), sandbox("a")), False, 3, id="LC-3.1.3 an older one ready"),
        pytest.param((sandbox("a"),), True, 1, id="LC-3.1.4 network mode differs"),
        pytest.param((sandbox("a", ips=()),), False, 1, id="LC-3.1.5 no IP"),
        pytest.param((sandbox("a"),), False, None, id="LC-3.1 usable"),
        pytest.param((sandbox("a", host_network=True, ips=()),), True, None, id="LC-3.1 host network has no IP"),
        pytest.param((sandbox("b", attempt=1), sandbox("a", ready=False)), False, None, id="LC-3.1 newest counts"),
    ],
)
def test_when_a_new_sandbox_is_needed(
    sandboxes: tuple[ObservedSandbox, ...], *, host_network: bool, attempt: int | None
) -> None:
    """SB-2."""
    assert new_attempt(pod(host_network=host_network), observed(sandboxes=sandboxes)) == attempt


DEAD = (sandbox(ready=False),)


def test_lc_3_2_1_a_never_pod_is_not_restarted_in_a_new_sandbox() -> None:
    world = World(pod("m", "n", policy="Never"), {"n": [Life(1)]}).run(5)
    world.sandbox_dies(containers_too=True)
    world.run(60)
    assert world.order("start") == ["m", "n"]
    assert world.phases[-1] == "Failed"
    assert world.finished


def test_readme_8_a_never_pod_whose_sandbox_died_ends_whatever_its_containers_policies() -> None:
    subject = pod(container("m", restart_policy="Always"), policy="Never")
    world = World(subject).run(5)
    world.sandbox_dies()
    world.run(60)
    assert world.order("start") == ["m"]
    assert world.phases[-1] == "Succeeded"  # its exit code was 0
    assert world.finished


def test_readme_8_a_never_pod_whose_sandbox_died_during_init_fails() -> None:
    world = World(pod("m", init=("i",), policy="Never"), {"i": [Life(20)]}).run(5)
    world.sandbox_dies()
    world.run(60)
    assert world.phases[-1] == "Failed"
    assert world.finished


def test_lc_3_2_2_mains_that_have_ended_for_good_ask_for_no_sandbox() -> None:
    subject = pod("m", container("n", restart_policy="Never"), policy="OnFailure")
    found = plan(subject, observed(exited("m"), exited("n", 1), sandboxes=DEAD), memory())
    assert (found.create_sandbox, found.cause) == (False, StopCause.COMPLETED)


def test_lc_3_2_3_nothing_ran_yet_so_it_is_made() -> None:
    found = plan(pod("m", policy="OnFailure"), observed(sandboxes=DEAD), memory())
    assert (found.create_sandbox, found.attempt, found.to_start) == (True, 1, (0,))


def test_lc_3_2_4_without_init_entries_the_candidates_start() -> None:
    found = plan(pod("m", "n", policy="OnFailure"), observed(exited("m"), exited("n", 1), sandboxes=DEAD), memory())
    assert (found.init_to_start, found.to_start) == ((), (1,))


def test_lc_3_2_5_a_new_sandbox_runs_all_init_entries_again_and_only_them() -> None:
    lives = {"i": [Life(1)], "done": [Life(1)], "m": [Life(on_term=2, term_code=1)]}
    world = World(pod("m", "done", init=("i", sidecar("s")), policy="OnFailure"), lives).run(10)
    world.sandbox_dies()
    world.run(60)
    assert world.order("start") == ["i", "s", "m", "done", "i", "s", "m"]
    assert status_of(world.status, "m").restart_count == 1
    assert status_of(world.status, "i").restart_count == 1
    assert world.phases == ["Pending", "Running", "Pending", "Running"]


def test_lc_3_2_6_the_change_is_told_once() -> None:
    world = World(pod("m")).run(5)
    world.sandbox_dies()
    world.run(60)
    assert [(e.type, e.message) for _, e in world.events if e.reason == "SandboxChanged"] == [
        ("Normal", "Pod sandbox changed, it will be killed and re-created.")
    ]
    assert [s.id for s in world.sandboxes] == ["sb1", "sb0"]  # the old one holds the record of the last run


def test_lc_3_3_containers_that_outlive_their_sandbox_are_stopped_in_order_first() -> None:
    world = World(pod("m", init=(sidecar("s1"), sidecar("s2"))), {"m": [Life(on_term=3)]}).run(5)
    world.sandbox_dies()
    world.run(60)
    assert world.order("term") == ["m", "s2", "s1"]
    assert world.first("s2", "term") == world.first("m", "exit")
    assert world.first("s1", "exit") < world.first("sandbox", "made 1")


def test_lc_1_3_6_a_sandbox_that_could_not_be_made_is_asked_for_again() -> None:
    first = decide(pod(), observed(sandboxes=()), memory(), T0)
    assert first.actions == (CreateSandbox(attempt=0),)
    came_back = memory(accepted_at=T0)
    assert decide(pod(), observed(sandboxes=()), came_back, T0 + 10).actions == (CreateSandbox(attempt=0),)


def test_lc_3_1_2_of_two_ready_sandboxes_both_are_stopped() -> None:
    two = (sandbox("b", attempt=1), sandbox("a"))
    decision = decide(pod(), observed(sandboxes=two), memory(), T0 + 10)
    assert decision.actions == (StopSandbox(sandbox_id="b"), StopSandbox(sandbox_id="a"))


def test_a_change_of_sandbox_in_which_everything_ends_for_good_ends_the_pod() -> None:
    world = World(pod("m", policy="OnFailure")).run(5)  # its main exits 0 when it is stopped
    world.sandbox_dies()
    world.run(60)
    assert world.finished
    assert world.phases == ["Pending", "Running", "Succeeded"]
    assert world.order("made") == ["sandbox"]


def test_a_sandbox_that_died_is_stopped_once_to_give_its_network_back() -> None:
    decision = decide(pod(), observed(exited("m", 1), sandboxes=DEAD), memory(), T0 + 10)
    assert decision.actions == (StopSandbox(sandbox_id="sb0"),)


def test_lc_1_3_4_the_new_sandbox_waits_for_the_old_init_records_to_be_gone() -> None:
    subject = pod(init=("i",))
    seen = observed(exited("m", 1), exited("i"), sandboxes=DEAD)
    busy = memory(
        stopping=Stopping(cause=StopCause.SANDBOX, began=T0 + 9, grace=30),
        stopped_sandboxes=frozenset({"sb0"}),
    )
    decision = decide(subject, seen, busy, T0 + 10)
    assert decision.actions == (RemoveContainer(name="i", container_id="i-id", logs=True),)
    purged = decide(subject, observed(exited("m", 1), sandboxes=DEAD), busy, T0 + 10)
    assert purged.actions == (CreateSandbox(attempt=1),)


def test_nothing_starts_while_the_sandbox_is_being_made() -> None:
    busy = memory(in_flight=frozenset({"sandbox"}))
    assert decide(pod(), observed(), busy, T0 + 10).actions == ()


def test_a_sandbox_that_becomes_usable_again_ends_the_change() -> None:
    subject = pod()
    changed = decide(subject, observed(running("m"), sandboxes=(sandbox(ips=()),)), memory(), T0 + 10)
    assert [type(action) for action in changed.actions] == [StopContainer]
    back = decide(subject, observed(exited("m", finished_at=T0 + 11)), changed.memory, T0 + 11)
    assert back.memory.stopping is None
    assert [type(action).__name__ for action in back.actions] == ["StartContainer"]
