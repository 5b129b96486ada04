"""LC 6 and PH 7.1: single starts, their failures, postStart hooks."""

from __future__ import annotations

import msgspec

from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import RunPostStart, StartContainer, StopContainer
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import BackoffEntry, HookState, KillReason, StartError
from minikubelet.lifecycle.records import RecordState
from tests.unit.lifecycle.build import (
    T0,
    container,
    exited,
    hooks,
    memory,
    observed,
    pod,
    record,
    running,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World

HOOKED = container("m", lifecycle=hooks(post_start=True, pre_stop=True))


def error(reason: str = "CreateContainerError", *, at: float = T0 + 6, wait: float = 10) -> StartError:
    return StartError(reason=reason, message="no", at=at, retry_at=at + wait)


def test_lc_6_3_restart_counts_go_on() -> None:
    def count(**fields: object) -> int:
        start = decide(pod(), fields.pop("seen", observed()), memory(**fields), T0 + 10).actions[0]  # type: ignore[arg-type]
        assert isinstance(start, StartContainer)
        return start.restart_count

    assert count() == 0
    assert count(seen=observed(exited("m", restart_count=4))) == 5
    assert count(restart_counts={"m": 7}) == 8
    assert count(seen=observed(exited("m", restart_count=4)), restart_counts={"m": 7}) == 8


def test_lc_6_1_a_failed_start_is_shown_and_tried_again_at_its_time() -> None:
    world = World(pod("m"), {"m": [Life(pulls=False), Life()]}).run(5)
    waiting = status_of(world.status, "m").state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == ("ImagePullBackOff", "Back-off")
    world.run(6)
    assert world.times("m", "start") == [world.first("m", "unpullable") + 10.125]


def test_lc_6_1_a_start_error_waits_for_its_retry() -> None:
    first = decide(pod(), observed(), memory(), T0 + 1)
    failed = notes.action_finished(notes.start_failed(first.memory, "m", error()), "start:m")
    held = decide(pod(), observed(), failed, T0 + 7)
    assert (held.actions, held.wake_at) == ((), T0 + 16)
    assert [a.key for a in decide(pod(), observed(), failed, T0 + 16).actions] == ["start:m"]


def test_lc_6_1_an_edit_of_the_image_ends_the_wait() -> None:
    first = decide(pod(), observed(), memory(), T0 + 1)
    failed = notes.action_finished(notes.start_failed(first.memory, "m", error()), "start:m")
    edited = pod(container("m", image="busybox:2"))
    assert [a.key for a in decide(edited, observed(), failed, T0 + 7).actions] == ["start:m"]


def test_lc_6_1_crash_loop_says_until_when() -> None:
    """LC 7.9: no jitter, said at once."""
    world = World(pod("m"), {"m": [Life(1, code=1)]}).run(4)
    waiting = status_of(world.status, "m").state.waiting
    assert waiting is not None
    assert waiting.reason == "CrashLoopBackOff"
    assert waiting.message == (
        "back-off 10s restarting failed container=m pod=p_default(u1), next try at 1970-01-12T13:46:52Z"
    )
    events = [(at, e.type, e.message, e.container) for at, e in world.events if e.reason == "BackOff"]
    assert events == [(2.375, "Warning", "Back-off restarting failed container m in pod p_default(u1)", "m")]


def test_lc_6_1_a_new_exit_makes_a_new_back_off() -> None:
    """The note of the start between the two was lost."""
    seen = observed(exited("m", 1, finished_at=T0 + 9))
    first = decide(pod(), seen, memory(), T0 + 10)
    key = next(iter(first.memory.backoff))
    stale = {"m": StartError(reason="CrashLoopBackOff", message="old", at=T0, retry_at=T0 + 8)}
    again = decide(
        pod(), seen, memory(start_errors=stale, backoff={key: BackoffEntry(delay=10, last_update=T0)}), T0 + 10
    )
    assert again.memory.start_errors["m"].retry_at == again.wake_at == T0 + 19
    assert [event.reason for event in again.events] == ["BackOff"]


def test_lc_6_1_a_clock_that_was_set_back_does_not_prolong_the_wait() -> None:
    """Asked again and again, it comes to the start."""
    seen = observed(exited("m", 1, finished_at=T0 + 5000))
    first = decide(pod(), seen, memory(), T0 + 10)
    key = next(iter(first.memory.backoff))
    remembered = memory(backoff={key: BackoffEntry(delay=10, last_update=T0 + 4000)})
    held = decide(pod(), seen, remembered, T0 + 10)
    assert held.wake_at == T0 + 20
    between = decide(pod(), seen, held.memory, T0 + 15)
    assert between.wake_at == T0 + 20
    assert [event.reason for event in (*held.events, *between.events)] == ["BackOff"]
    due = decide(pod(), seen, between.memory, T0 + 20)
    assert [action.key for action in due.actions] == ["start:m"]
    assert due.memory.backoff[key] == BackoffEntry(delay=20, last_update=T0 + 20)


def test_lc_6_1_a_clock_that_was_set_back_twice_does_not_prolong_the_wait() -> None:
    seen = observed(exited("m", 1, finished_at=T0 + 5000))
    key = next(iter(decide(pod(), seen, memory(), T0 + 10).memory.backoff))
    held = decide(pod(), seen, memory(backoff={key: BackoffEntry(delay=10, last_update=T0 + 3990)}), T0 + 4000)
    again = decide(pod(), seen, held.memory, T0 + 10)
    assert (held.wake_at, again.wake_at) == (T0 + 4010, T0 + 20)
    gone = decide(pod(), observed(), again.memory, T0 + 11)
    assert gone.memory.ended_by == {}


def test_lc_6_1_a_clock_that_was_set_back_does_not_prolong_the_wait_for_a_retry() -> None:
    first = decide(pod(), observed(), memory(), T0 + 1)
    failed = notes.action_finished(notes.start_failed(first.memory, "m", error(at=T0 + 5000)), "start:m")
    assert decide(pod(), observed(), failed, T0 + 7).wake_at == T0 + 17


def test_lc_6_5_and_ph_7_1_the_hook_runs_when_its_container_does() -> None:
    seen = observed(running("m"))
    decision = decide(pod(HOOKED), seen, memory(post_start={"m-id": HookState.PENDING}), T0 + 2)
    assert decision.actions == (RunPostStart(name="m", container_id="m-id"),)
    shown = status_of(decision.status, "m")
    assert shown.state.waiting is not None
    assert (shown.state.waiting.reason, shown.started, shown.ready) == ("ContainerCreating", False, False)
    assert decision.status.phase == "Pending"


def test_ph_7_1_a_failed_hook_kills_its_container_with_its_pre_stop_hook() -> None:
    life = Life(post_start=2, post_start_fails=True, pre_stop=1, on_term=1, term_code=3)
    world = World(pod(HOOKED), {"m": [life]}).run(8)
    assert [e.message for _, e in world.events if e.reason == "FailedPostStartHook"] == ["PostStartHook failed"] * 2
    assert [e.message for _, e in world.events if e.reason == "Killing"] == ["FailedPostStartHook"] * 2
    start = world.first("m", "start")
    assert [world.first("m", what) - start for what in ("preStop", "term", "exit")] == [2, 3, 4]
    assert world.times("m", "start")[1] - world.first("m", "exit") == 0.125  # the first restart is at once
    between = [s for at, s in world.statuses if world.first("m", "exit") <= at < world.times("m", "start")[1]]
    shown = status_of(between[-1], "m")
    assert shown.state.waiting is not None
    assert shown.last_state.terminated is not None
    assert (shown.state.waiting.reason, shown.last_state.terminated.exit_code) == ("PostStartHookError", 3)


def test_ph_7_1_with_never_the_exit_code_alone_counts() -> None:
    world = World(pod(HOOKED, policy="Never"), {"m": [Life(post_start_fails=True)]}).run()
    assert world.phases[-1] == "Succeeded"
    assert status_of(world.status, "m").state.terminated is not None


def test_ph_7_1_a_container_that_ends_during_its_hook_has_failed_it() -> None:
    world = World(pod(HOOKED), {"m": [Life(2, code=1, post_start=None), Life(post_start=0)]}).run(20)
    assert world.times("m", "postStart-failed") == world.times("m", "exit")
    assert status_of(world.status, "m").state.running is not None


def test_ph_7_1_the_error_of_a_hook_does_not_stick_to_a_newer_container() -> None:
    late = notes.post_start_finished(memory(), "old-id", error("PostStartHookError"))
    seen = observed(running("m"), exited("m", 1, id="old-id"))
    assert decide(pod(HOOKED), seen, late, T0 + 9).memory.start_errors == {}


def test_readme_3_a_hook_holds_back_nothing_but_what_comes_after_it() -> None:
    hook = container("b", lifecycle=hooks(post_start=True))
    lives = {"b": [Life(post_start=None)], "a": [Life(3, code=1)], "s": [Life(4, code=1)]}
    world = World(pod("a", hook, "c", init=(sidecar("s"),)), lives).run(10)
    assert world.never("c", "start")
    assert len(world.times("a", "start")) == 2
    assert len(world.times("s", "start")) == 2


def test_a_hook_that_the_daemon_s_death_cut_off_is_run_again() -> None:
    world = World(pod(HOOKED), {"m": [Life(post_start=5)]}).run(3)
    world.kill_daemon()
    world.start_daemon()
    world.run(10)
    assert len(world.times("m", "postStart")) == 2
    assert status_of(world.status, "m").state.running is not None


def test_a_hook_is_run_when_the_daemon_died_between_the_start_and_its_note() -> None:
    handed_out = decide(pod(HOOKED), observed(), memory(), T0 + 1).memory
    assert handed_out.post_start == {"m": HookState.PENDING}
    decision = decide(pod(HOOKED), observed(running("m")), notes.restore(handed_out), T0 + 2)
    assert decision.actions == (RunPostStart(name="m", container_id="m-id"),)
    assert decision.memory.post_start == {"m-id": HookState.PENDING}


def test_a_record_seen_before_its_start_has_come_back_is_not_shown() -> None:
    handed_out = decide(pod(HOOKED), observed(), memory(), T0 + 1).memory
    for state in (RecordState.CREATED, RecordState.RUNNING):
        early = decide(pod(HOOKED), observed(record("m", state)), handed_out, T0 + 2)
        assert early.actions == ()
        assert status_of(early.status, "m").state.waiting is not None


def test_a_start_that_was_noted_ends_its_error() -> None:
    failed = memory(start_errors={"m": error()})
    started = notes.container_started(failed, pod=pod(HOOKED), name="m", container_id="x", restart_count=3)
    assert started.start_errors == {}
    assert started.post_start == {"x": HookState.PENDING}
    assert started.restart_counts == {"m": 3}
    gone = notes.container_started(failed, pod=pod(HOOKED), name="edited-out", container_id="y", restart_count=0)
    assert gone.post_start == {}
    plain = notes.container_started(failed, pod=pod(), name="m", container_id="x", restart_count=0)
    assert plain.post_start == {}


def test_an_error_does_not_outlive_the_start_of_its_container() -> None:
    """The daemon died between the start and its note."""
    decision = decide(pod(), observed(running("m")), memory(start_errors={"m": error()}), T0 + 9)
    assert decision.memory.start_errors == {}


def test_a_hook_that_an_edit_removed_is_waited_for_no_longer() -> None:
    pending = memory(post_start={"m-id": HookState.PENDING})
    decision = decide(pod(), observed(running("m")), pending, T0 + 9)
    assert status_of(decision.status, "m").state.running is not None


def test_two_that_run_under_one_name_the_older_is_stopped() -> None:
    seen = observed(running("m", id="new"), running("m", id="old"))
    decision = decide(pod(), seen, memory(), T0 + 9)
    assert [a.container_id for a in decision.actions if isinstance(a, StopContainer)] == ["old"]
    assert decision.memory.kills["old"].reason is KillReason.UNKNOWN


def test_a_container_that_an_edit_took_out_of_the_manifest_is_stopped_and_removed() -> None:
    world = World(pod("m", "n")).run(5)
    world.edit(msgspec.structs.replace(world.pod, spec=pod("m").spec))
    world.run(10)
    assert {r.name for r in world.records} == {"m"}
    assert len(world.status.container_statuses) == 1


def test_what_a_container_could_not_be_made_for_is_tried_again_at_once_when_it_may_be_there() -> None:
    waiting = memory(start_errors={"m": error("CreateContainerConfigError"), "n": error("ErrImagePull")})
    due = notes.retry_configuration(waiting, now=T0 + 8).start_errors
    assert (due["m"].retry_at, due["n"].retry_at) == (T0 + 8, T0 + 16)
    assert notes.retry_configuration(memory(), now=T0 + 8) == memory()


def test_cc_1_counts_go_on_from_what_the_logs_tell() -> None:
    known = notes.attempts_known(memory(restart_counts={"m": 2, "n": 5}), {"m": 3, "n": 4, "x": 0})
    assert known.restart_counts == {"m": 3, "n": 5, "x": 0}
    (start,) = decide(pod(), observed(), notes.attempts_known(memory(), {"m": 3}), T0 + 10).actions
    assert isinstance(start, StartContainer)
    assert start.restart_count == 4
