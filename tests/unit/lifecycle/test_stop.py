"""LC 10, PH 7.2 to 7.5 and README 6: how containers are stopped."""

from __future__ import annotations

import pytest

from minikubelet.api.pod import Probe
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Decision, RunPreStop, StopContainer, StopSandbox
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import HookState, Kill, KillReason, Memory, ProbeResult, StopCause, Stopping
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.lifecycle.stop import grace_of
from tests.unit.lifecycle.build import (
    PROBE,
    T0,
    condition_of,
    container,
    exited,
    hooks,
    memory,
    observed,
    pod,
    record,
    results,
    running,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World

HOOK = hooks(pre_stop=True)


def stopping(cause: StopCause = StopCause.REMOVED, *, began: float = T0 + 10, grace: int = 30) -> Stopping:
    return Stopping(cause=cause, began=began, grace=grace)


def stops(decision: Decision) -> dict[str, int]:
    return {a.name: a.timeout for a in decision.actions if isinstance(a, StopContainer)}


@pytest.mark.parametrize(
    ("cause", "spec", "grace"),
    [
        pytest.param(StopCause.RESTART_ALL, 30, 0, id="LC-10.1.1 RestartAllContainers"),
        pytest.param(StopCause.REMOVED, 30, 30, id="LC-10.1.4 spec"),
        pytest.param(StopCause.REMOVED, 0, 1, id="LC-10.2 at least 1"),
        pytest.param(StopCause.ENDED, 0, 1, id="LC-10.2 ended by the node"),
        pytest.param(StopCause.REMOVED, -5, 1, id="PH-2.3 a negative grace"),
        pytest.param(StopCause.COMPLETED, -5, 1, id="PH-2.3 a negative grace at completion"),
        pytest.param(StopCause.REMOVED, 2**63 - 1, 2**31 - 1, id="an endless grace is what everybody can count to"),
        pytest.param(StopCause.COMPLETED, 0, 0, id="PH-7.3 completion with grace 0"),
        pytest.param(StopCause.DEADLINE, 7, 7, id="PH-7.3 deadline"),
        pytest.param(StopCause.INIT_FAILED, 7, 7, id="PH-7.3 init failure"),
        pytest.param(StopCause.SANDBOX, 7, 7, id="LC-1.3.4 sandbox changed"),
    ],
)
def test_the_grace_of_a_pod_wide_stop(cause: StopCause, spec: int, grace: int) -> None:
    assert grace_of(pod(termination_grace_period_seconds=spec), cause) == grace


@pytest.mark.parametrize(
    ("probe_grace", "grace"),
    [(None, 30), (3, 3), (50, 50), (2**63 - 1, 2**31 - 1)],
    ids=["LC-10.1.4", "LC-10.1.3 smaller", "LC-10.1.3 larger", "endless"],
)
def test_the_grace_of_a_probe_kill(probe_grace: int | None, grace: int) -> None:
    probe = Probe(exec=PROBE.exec, termination_grace_period_seconds=probe_grace)
    bad = memory(probes={"m-id": results(liveness=ProbeResult.FAILURE)})
    decision = decide(pod(container("m", liveness_probe=probe)), observed(running("m")), bad, T0 + 10)
    assert stops(decision) == {"m": grace}


@pytest.mark.parametrize(
    ("first", "later", "after", "left"),
    [
        pytest.param(30, None, 0, 30, id="LC-10.2 the spec's"),
        pytest.param(30, 5, 0, 5, id="LC-10.2 a shorter request"),
        pytest.param(30, 5, 10, 15, id="LC-10.2 shortened later"),
        pytest.param(30, 100, 0, 30, id="LC-10.2 never longer than the spec's"),
        pytest.param(5, 30, 2, 5, id="LC-10.2 never extended"),
        pytest.param(30, 0, 0, 1, id="LC-10.2 at least 1"),
    ],
)
def test_the_grace_only_shrinks(first: int, later: int | None, after: float, left: int) -> None:
    subject = pod()
    one = notes.request_stop(memory(), subject, StopCause.REMOVED, T0, grace=first)
    two = notes.request_stop(one, subject, StopCause.REMOVED, T0 + after, grace=later)
    assert two.stopping == Stopping(cause=StopCause.REMOVED, began=T0, grace=left)


def test_lc_10_2_a_shorter_grace_signals_again_what_was_given_more_time() -> None:
    world = World(pod("m"), {"m": [Life(on_term=None)]}).run(5)
    world.remove()
    world.run(4)
    world.remove(grace=3)
    world.run()
    assert world.first("m", "exit 137") == 5 + 4 + 3
    assert world.finished


def test_lc_10_2_the_same_grace_signals_nothing_again() -> None:
    subject = pod()
    first = decide(subject, observed(running("m")), memory(stopping=stopping()), T0 + 10)
    again = notes.request_stop(first.memory, subject, StopCause.REMOVED, T0 + 12)
    assert decide(subject, observed(running("m")), again, T0 + 12).actions == ()


def test_a_pod_that_is_being_removed_stays_so() -> None:
    for cause in StopCause:
        taken = notes.request_stop(memory(stopping=stopping()), pod(), cause, T0 + 12)
        assert taken.stopping is not None
        assert taken.stopping.cause is StopCause.REMOVED


def test_a_pod_that_was_ended_from_outside_stays_as_it_is_then() -> None:
    world = World(pod("m", init=(sidecar("s"),)), {"m": [Life(on_term=9)], "s": [Life(8, code=1), Life()]}).run(5)
    world.memory = notes.request_stop(world.memory, world.pod, StopCause.ENDED, world.now)
    world.run()
    assert world.finished
    assert {r.name for r in world.records} == {"m", "s"}
    assert world.phases[-1] == "Succeeded"
    assert len(world.times("s", "start")) == 2  # README 6


def test_a_clock_that_is_set_back_does_not_prolong_a_stop() -> None:
    subject = pod("m", init=(sidecar("s", lifecycle=HOOK),))
    kills = {"s-id": Kill(reason=KillReason.LIVENESS, message="", began=T0 + 5000, grace=30)}
    ahead = memory(stopping=stopping(began=T0 + 5000), kills=kills)
    decision = decide(subject, observed(running("m"), running("s")), ahead, T0 + 20)
    assert stops(decision) == {"m": 30}
    assert decision.wake_at == T0 + 50
    assert decision.memory.kills["s-id"].began == T0 + 20


def test_what_ran_before_the_clock_was_set_back_did_not_come_up_during_the_stop() -> None:
    subject = pod("m", init=(sidecar("s", lifecycle=hooks(post_start=True)),))
    seen = observed(running("m", created_at=T0 + 5000), running("s", created_at=T0 + 5000))
    asked = memory(stopping=stopping(began=T0 + 20, grace=30), post_start={"s-id": HookState.PENDING})
    decision = decide(subject, seen, asked, T0 + 20)
    assert stops(decision) == {"m": 30}
    assert set(decision.memory.kills) == {"m-id", "s-id"}


def test_a_clock_that_is_set_back_does_not_shorten_a_stop_that_is_asked_for_again() -> None:
    ahead = memory(stopping=stopping(began=T0 + 5000))
    again = notes.request_stop(ahead, pod(), StopCause.REMOVED, T0 + 20, grace=7)
    assert again.stopping == stopping(began=T0 + 20, grace=7)


def test_a_removal_takes_over_from_any_other_stop() -> None:
    subject = pod(termination_grace_period_seconds=30)
    for cause in StopCause:
        under_way = memory(stopping=stopping(cause, grace=8))
        taken = notes.request_stop(under_way, subject, StopCause.REMOVED, T0 + 12)
        assert taken.stopping == stopping(StopCause.REMOVED, grace=8)


def test_lc_10_3_1_the_hook_s_seconds_are_taken_off_rounded_down() -> None:
    subject = pod(container("m", lifecycle=HOOK), termination_grace_period_seconds=10)
    first = decide(subject, observed(running("m")), memory(stopping=stopping(grace=10)), T0 + 10)
    assert first.actions == (RunPreStop(name="m", container_id="m-id"),)
    assert first.wake_at == T0 + 20
    done = notes.pre_stop_finished(first.memory, name="m", container_id="m-id")
    assert stops(decide(subject, observed(running("m")), done, T0 + 15.9)) == {"m": 5}


def test_lc_10_3_1_a_hook_that_runs_out_of_time_is_left_and_signalled_once() -> None:
    main = container("m", lifecycle=HOOK)
    subject = pod(main, termination_grace_period_seconds=6)
    world = World(subject, {"m": [Life(pre_stop=30, on_term=None)]}).run(5)
    world.remove()
    world.run()
    assert world.times("m", "term") == [11]
    assert world.first("m", "exit 137") == 13


def test_lc_10_3_1_grace_0_skips_hooks_and_order() -> None:
    subject = pod("m", init=(sidecar("s", lifecycle=HOOK),), policy="Never", termination_grace_period_seconds=0)
    world = World(subject, {"m": [Life(3)], "s": [Life(on_term=None)]}).run()
    assert world.never("s", "preStop")
    assert world.first("s", "exit 137") == world.first("m", "exit") + 2


def test_ph_7_3_a_removed_pod_of_grace_0_gives_its_hook_one_second() -> None:
    subject = pod(container("m", lifecycle=HOOK), termination_grace_period_seconds=0)
    world = World(subject, {"m": [Life(pre_stop=5, on_term=None)]}).run(5)
    world.remove()
    world.run()
    assert [world.first("m", what) for what in ("preStop", "term", "exit")] == [5, 6, 8]


def test_ph_7_3_a_single_kill_of_grace_0_skips_the_hook() -> None:
    main = container("m", lifecycle=HOOK, liveness_probe=PROBE)
    world = World(pod(main, termination_grace_period_seconds=0), {"m": [Life(dies_at=2), Life()]}).run(20)
    assert world.never("m", "preStop")
    assert len(world.times("m", "term 2")) == 1


def test_readme_6_the_order_is_strict_also_when_one_in_between_is_down() -> None:
    """The kubelet only waits for the direct successor (LC 10.3.2)."""
    subject = pod("m", init=(sidecar("s1"), sidecar("s2"), sidecar("s3")))
    seen = observed(running("s1"), exited("s2"), running("s3"), exited("m"))
    first = decide(subject, seen, memory(stopping=stopping()), T0 + 10)
    assert stops(first) == {"s3": 30}
    then = observed(running("s1"), exited("s2"), exited("s3"), exited("m"))
    assert stops(decide(subject, then, first.memory, T0 + 14)) == {"s1": 26}


def test_readme_6_init_containers_end_before_the_sidecars() -> None:
    """The kubelet signals both at once (LC 10.3)."""
    subject = pod("m", init=(sidecar("s"), "i"), policy="Never")
    world = World(subject, {"i": [Life(on_term=4)]}).run(5)
    world.remove()
    world.run()
    assert world.first("s", "term") == world.first("i", "exit") == 9


def test_lc_10_3_3_at_least_two_seconds() -> None:
    decision = decide(pod(), observed(running("m")), memory(stopping=stopping(grace=1)), T0 + 10)
    assert stops(decision) == {"m": 2}


def test_lc_10_3_4_sandboxes_are_stopped_when_all_is_down() -> None:
    decision = decide(pod(), observed(exited("m")), memory(stopping=stopping()), T0 + 12)
    assert decision.actions == (StopSandbox(sandbox_id="sb0"),)


def test_lc_10_4_a_sidecar_that_exits_by_itself_disturbs_nobody() -> None:
    lives = {"m": [Life(on_term=20)], "s2": [Life(15, code=3), Life(1)], "s1": [Life()]}
    world = World(pod("m", init=(sidecar("s1"), sidecar("s2"))), lives).run(10)
    world.remove()
    world.run()
    assert world.first("s1", "term") >= world.first("m", "exit")


def test_lc_10_4_the_last_sidecar_ignores_its_signal() -> None:
    subject = pod("m", init=(sidecar("s1"), sidecar("s2")), termination_grace_period_seconds=10)
    world = World(subject, {"m": [Life(on_term=3.5)], "s2": [Life(on_term=None)]}).run(5)
    world.remove()
    world.run()
    assert world.times("s2", "term 7") == [8.5]
    assert world.first("s1", "term 2") == 15
    assert world.first("s2", "exit 137") == 15.5


def test_lc_10_5_1_nothing_starts_while_the_pod_is_stopped() -> None:
    subject = pod("m", "n", init=(sidecar("s"),))
    for cause in (StopCause.REMOVED, StopCause.COMPLETED, StopCause.DEADLINE):
        seen = observed(running("m"), running("s"))  # n was never started
        decision = decide(subject, seen, memory(stopping=stopping(cause)), T0 + 10)
        assert {type(action) for action in decision.actions} == {StopContainer}


def test_readme_6_a_sidecar_that_dies_while_the_main_ends_is_started_again() -> None:
    """KEP-753's text; the kubelet does not (LC 14)."""
    side = sidecar("s", lifecycle=hooks(pre_stop=True, post_start=True))
    world = World(pod("m", init=(side,)), {"m": [Life(on_term=20)], "s": [Life(8, code=1), Life()]}).run(5)
    world.remove()
    world.run()
    assert len(world.times("s", "start")) == 2
    assert len(world.times("s", "postStart")) == 2
    assert len(world.times("s", "preStop")) == 1  # once for one stop
    assert world.last("s", "term") == world.first("m", "exit") == 25
    assert [at for at, e in world.events if e.reason == "Killing" and e.container == "s"] == [5, 25]


def test_a_hook_that_the_stop_abandoned_is_not_run_again() -> None:
    main = container("m", lifecycle=hooks(post_start=True))
    pending = memory(post_start={"m-id": HookState.PENDING}, stopping=stopping())
    decision = decide(pod(main, "n"), observed(running("n"), running("m")), pending, T0 + 10)
    assert {type(action) for action in decision.actions} == {StopContainer}


@pytest.mark.parametrize("cause", [StopCause.COMPLETED, StopCause.INIT_FAILED, StopCause.SANDBOX])
def test_readme_6_no_sidecar_comes_back_in_a_stop_of_the_pod_s_own(cause: StopCause) -> None:
    seen = observed(running("m"), exited("s", 1))
    decision = decide(pod("m", init=(sidecar("s"),)), seen, memory(stopping=stopping(cause)), T0 + 10)
    assert {type(action) for action in decision.actions} == {StopContainer}


def started_in_stop(seen: Observed, remembered: Memory, now: float = T0 + 12) -> bool:
    decision = decide(pod("m", init=(sidecar("s"),)), seen, remembered, now)
    return any(action.key == "start:s" for action in decision.actions)


def test_readme_6_which_sidecars_come_back() -> None:
    dead = exited("s", 1)
    stop = stopping()
    told = Kill(reason=KillReason.POD, message="", began=T0, grace=30)
    probe_kill = Kill(reason=KillReason.LIVENESS, message="", began=T0, grace=30)
    signalled = frozenset({"s-id"})
    assert started_in_stop(observed(running("m"), dead), memory(stopping=stop))
    assert started_in_stop(
        observed(running("m"), dead), memory(stopping=stop, kills={"s-id": probe_kill}, signalled=signalled)
    )
    assert not started_in_stop(
        observed(running("m"), dead), memory(stopping=stop, kills={"s-id": told}, signalled=signalled)
    )
    assert not started_in_stop(observed(exited("m"), dead), memory(stopping=stop))  # no main runs
    assert not started_in_stop(observed(running("m")), memory(stopping=stop))  # it never ran
    assert not started_in_stop(observed(running("m"), dead), memory(stopping=stop), now=T0 + 40)  # no time is left
    assert not started_in_stop(observed(running("m"), dead, sandboxes=()), memory(stopping=stop))


def test_lc_10_5_2_the_deadline_fails_the_pod_at_once() -> None:
    subject = pod("m", init=(sidecar("s"),), active_deadline_seconds=10)
    world = World(subject, {"m": [Life(on_term=4)]}).run()
    at, failed = next((at, s) for at, s in world.statuses if s.phase == "Failed")
    assert at == 10
    assert (failed.reason, failed.message) == (
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    assert world.reasons("DeadlineExceeded") == [10]
    assert world.order("term") == ["m", "s"]
    end = status_of(world.status, "m").state.terminated
    assert end is not None
    assert end.exit_code == 0
    assert world.status.reason == "DeadlineExceeded"
    assert world.finished


def test_lc_10_5_2_the_deadline_counts_from_the_start_time_and_during_init() -> None:
    world = World(pod("m", init=("i",), active_deadline_seconds=10)).run()
    assert world.phases[-1] == "Failed"
    assert world.never("m", "start")


def test_lc_10_5_2_a_pod_that_completes_is_not_failed_by_its_deadline() -> None:
    subject = pod("m", init=(sidecar("s"),), policy="Never", active_deadline_seconds=10)
    world = World(subject, {"m": [Life(8)], "s": [Life(on_term=5)]}).run()
    assert world.phases[-1] == "Succeeded"


def test_lc_10_5_2_the_deadline_ends_a_change_of_sandbox() -> None:
    world = World(pod("m", active_deadline_seconds=10), {"m": [Life(on_term=5)]}).run(8)
    world.sandbox_dies()
    world.run()
    assert world.phases[-1] == "Failed"
    assert len(world.times("m", "start")) == 1


def test_lc_10_5_5_single_kills_run_hooks_and_know_no_order() -> None:
    bad = results(startup=ProbeResult.SUCCESS, liveness=ProbeResult.FAILURE)
    side = sidecar("s", liveness_probe=PROBE, lifecycle=HOOK)
    subject = pod(container("m", liveness_probe=PROBE), init=(side,))
    seen = observed(running("m"), running("s"))
    decision = decide(subject, seen, memory(probes={"m-id": bad, "s-id": bad}), T0 + 10)
    assert {a.key for a in decision.actions} == {"preStop:s-id", "stop:m-id:30"}


def test_ph_7_2_a_single_kill_goes_on_when_the_pod_is_removed() -> None:
    main = container("m", liveness_probe=PROBE, lifecycle=HOOK)
    world = World(pod(main, termination_grace_period_seconds=20), {"m": [Life(dies_at=3, pre_stop=None, on_term=None)]})
    world.run(10)
    began = world.first("m", "preStop")
    world.remove()
    world.run()
    assert len(world.times("m", "preStop")) == 1
    assert world.first("m", "term") == began + 20
    assert [e.message for _, e in world.events if e.reason == "Killing"] == [
        "Container m failed liveness probe, will be restarted"
    ]


def test_lc_11_7_killing_is_told_once_for_each_container() -> None:
    world = World(pod("m", init=(sidecar("s"),)), {"m": [Life(on_term=5)]}).run(5)
    world.remove()
    world.run()
    told = [(e.type, e.message, e.container) for _, e in world.events if e.reason == "Killing"]
    assert sorted(told) == [("Normal", "Stopping container m", "m"), ("Normal", "Stopping container s", "s")]


def test_a_stop_that_the_daemon_s_death_cut_off_is_asked_for_again_with_what_is_left() -> None:
    world = World(pod("m"), {"m": [Life(on_term=None)]}).run(5)
    world.remove()
    world.run(10)
    world.kill_daemon()
    world.run(5)
    world.start_daemon()
    world.run()
    assert world.first("m", "exit 137") == 35
    assert world.finished


def test_a_hook_that_the_daemon_s_death_cut_off_is_run_again() -> None:
    main = container("m", lifecycle=HOOK)
    world = World(pod(main), {"m": [Life(pre_stop=8)]}).run(5)
    world.remove()
    world.run(3)
    world.kill_daemon()
    world.start_daemon()
    world.run()
    assert world.times("m", "preStop") == [5, 8]
    assert world.first("m", "term") == 16


def test_a_stop_that_came_back_without_effect_is_asked_for_again() -> None:
    first = decide(pod(), observed(running("m")), memory(stopping=stopping()), T0 + 10)
    failed = notes.action_finished(first.memory, first.actions[0].key)
    assert stops(decide(pod(), observed(running("m")), failed, T0 + 12)) == {"m": 28}


def test_an_unknown_container_is_stopped_too() -> None:
    seen = observed(record("m", RecordState.UNKNOWN))
    assert stops(decide(pod(), seen, memory(stopping=stopping()), T0 + 10)) == {"m": 30}


def test_a_container_that_no_manifest_names_counts_as_a_regular_one() -> None:
    seen = observed(running("stray"), running("s"))
    decision = decide(pod(init=(sidecar("s"),)), seen, memory(stopping=stopping()), T0 + 10)
    assert stops(decision) == {"stray": 30}


def test_the_stop_waits_for_starts_that_are_being_abandoned() -> None:
    busy = memory(stopping=stopping(), in_flight=frozenset({"start:m"}))
    seen = observed(running("s"))
    decision = decide(pod(init=(sidecar("s"),)), seen, busy, T0 + 10)
    assert (decision.actions, decision.wake_at) == ((), T0 + 40)
    assert decide(pod(), observed(), busy, T0 + 10).actions == ()


def test_a_removed_pod_is_finished_when_nothing_of_it_is_left() -> None:
    world = World(pod("m", init=(sidecar("s"),))).run(5)
    world.remove()
    world.run()
    assert (world.finished, world.records, world.sandboxes) == (True, [], [])
    assert condition_of(world.status, "PodReadyToStartContainers")[0] == "False"
    assert status_of(world.status, "m").state.terminated is not None


def test_a_pod_that_has_ended_is_cleaned_up_when_its_manifest_goes() -> None:
    world = World(pod("m", policy="Never"), {"m": [Life(1)]}).run(60)
    assert world.finished
    assert world.records
    before = world.status
    world.remove()
    assert decide(world.pod, world.observed(), world.memory, world.now).finished is False
    world.run()
    assert (world.finished, world.records, world.sandboxes) == (True, [], [])
    assert world.status == before


def test_a_hook_that_outlives_its_container_does_not_hold_up_the_end() -> None:
    busy = memory(stopping=stopping(), stopped=True, in_flight=frozenset({"preStop:m-id"}))
    assert decide(pod(), observed(sandboxes=()), busy, T0 + 12).finished


def test_hooks_of_the_next_stop_are_run_again_after_a_passing_one() -> None:
    main = container("m", lifecycle=HOOK)
    world = World(pod(main)).run(5)
    world.sandbox_dies()
    world.run(20)
    world.remove()
    world.run()
    assert len(world.times("m", "preStop")) == 2


def test_the_state_of_a_hook_is_kept_under_name_and_id() -> None:
    both = memory(pre_stop={"m": HookState.PENDING, "m-id": HookState.PENDING, "n": HookState.PENDING})
    done = notes.pre_stop_finished(both, name="m", container_id="m-id")
    assert done.pre_stop == {"m": HookState.DONE, "m-id": HookState.DONE, "n": HookState.PENDING}
