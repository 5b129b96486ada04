"""LC 4: init containers and sidecars."""

from __future__ import annotations

import msgspec
import pytest

from minikubelet.lifecycle.actions import StartContainer, StopContainer
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import HookState, Kill, KillReason, ProbeResult
from minikubelet.lifecycle.plan import plan
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.lifecycle.walk import walk
from tests.unit.lifecycle.build import (
    PROBE,
    T0,
    condition_of,
    exited,
    hooks,
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

PROBED = {"startup_probe": PROBE, "liveness_probe": PROBE}
STARTED = results(startup=ProbeResult.SUCCESS)


def test_lc_4_1_an_oom_killed_init_container_has_failed_whatever_its_code() -> None:
    killed = exited("i", 0, reason="OOMKilled")
    assert plan(pod(init=("i",), policy="Never"), observed(killed), memory()).kill_pod


def test_lc_4_1_a_change_comes_before_liveness_and_after_startup() -> None:
    subject = pod(init=(sidecar("s", **PROBED),))
    bad = results(startup=ProbeResult.SUCCESS, liveness=ProbeResult.FAILURE)
    found = plan(subject, observed(running("s", hash="0ld")), memory(probes={"s-id": bad}))
    assert [order.message for order in found.to_kill] == ["Init container s definition changed"]
    pending = plan(subject, observed(running("s", hash="0ld")), memory())
    assert pending.to_kill == ()  # LC 4.5: ignored until the startup probe has a result


def test_lc_4_2_1_one_new_entry_at_a_time() -> None:
    world = World(pod("m", init=(sidecar("s1"), "i2", "i3")), {"i2": [Life(2)], "i3": [Life(2)]}).run(30)
    assert world.order("start") == ["s1", "i2", "i3", "m"]
    assert world.first("i3", "start") > world.first("i2", "exit")


def test_lc_4_2_2_readiness_gates_nothing() -> None:
    side = sidecar("s", readiness_probe=PROBE)
    world = World(pod("m", init=(side,)), {"s": [Life(ready_after=None)]}).run(10)
    assert len(world.times("m", "start")) == 1
    assert condition_of(world.status, "Ready")[0] == "False"


def test_lc_4_2_2_a_sidecar_that_is_replaced_is_a_gate_again() -> None:
    subject = pod(init=(sidecar("s1", **PROBED), "i2"))
    bad = results(startup=ProbeResult.SUCCESS, liveness=ProbeResult.FAILURE)
    seen = observed(running("s1"))
    assert plan(subject, seen, memory(probes={"s1-id": bad})).init_to_start == (0, 1)
    decision = decide(subject, seen, memory(probes={"s1-id": bad}), T0 + 10)
    assert [type(action) for action in decision.actions] == [StopContainer]


def test_lc_4_2_3_a_crashed_sidecar_holds_nothing_back_that_was_started_after_it() -> None:
    lives = {"s1": [Life(3, code=1)] * 3 + [Life(pulls=False)], "i2": [Life(40)]}
    world = World(pod("m", init=(sidecar("s1"), "i2", sidecar("s3"))), lives).run(60)
    assert len(world.times("s1", "start")) >= 3
    assert world.first("s3", "start") == pytest.approx(world.first("i2", "exit"), abs=0.2)
    assert len(world.times("m", "start")) == 1


def test_lc_4_2_4_a_sidecar_that_never_starts_up_keeps_the_pod_pending() -> None:
    side = sidecar("s", startup_probe=PROBE)
    world = World(pod("m", init=(side,), policy="Never"), {"s": [Life(2, code=1, up_after=None)]}).run(100)
    assert world.phases == ["Pending"]
    assert len(world.times("s", "start")) > 3
    assert world.never("m", "start")


def test_readme_5_mains_do_not_wait_for_the_last_sidecar_once_initialised() -> None:
    """The kubelet holds them back here (LC 4.2.5)."""
    lives = {"s": [Life(4, code=1), Life(0, code=1)], "m": [Life(4, code=1), Life()]}
    world = World(pod("m", init=(sidecar("s"),)), lives).run(10)
    assert len(world.times("m", "start")) == 2
    assert status_of(world.status, "s").state.waiting is not None


def test_readme_5_a_main_that_could_not_start_yet_does_not_wait_for_a_sidecar_that_is_down() -> None:
    lives = {"s": [Life(3, code=1), Life(0, code=1)], "m": [Life(pulls=False), Life()]}
    world = World(pod("m", init=(sidecar("s"),)), lives).run(12)
    assert len(world.times("m", "start")) == 1
    assert len(world.times("s", "start")) == 2


def test_lc_4_1_a_result_of_a_probe_that_an_edit_removed_kills_nothing() -> None:
    bad = memory(probes={"s-id": results(startup=ProbeResult.FAILURE, liveness=ProbeResult.FAILURE)})
    found = plan(pod(init=(sidecar("s"),)), observed(running("s")), bad)
    assert (found.to_kill, found.to_start) == ((), (0,))


def test_lc_4_1_a_sidecar_that_is_being_killed_is_no_open_gate() -> None:
    kills = {"s-id": Kill(reason=KillReason.LIVENESS, message="", began=T0, grace=30)}
    found = plan(pod(init=(sidecar("s"), "i")), observed(running("s")), memory(kills=kills))
    assert (found.init_to_start, found.to_kill) == ((), ())


def test_lc_4_2_6_dead_sidecars_are_restarted_together() -> None:
    """LC 1.3.7."""
    subject = pod(init=(sidecar("s1"), sidecar("s2")))
    seen = observed(running("m"), exited("s1"), exited("s2", 1))
    decision = decide(subject, seen, memory(), T0 + 10)
    assert [a.name for a in decision.actions if isinstance(a, StartContainer)] == ["s1", "s2"]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(observed(running("m")), id="initialised, their records are gone"),
        pytest.param(observed(running("i")), id="a later one runs, their records are gone"),
        pytest.param(observed(exited("s1", 1), exited("s2", 1)), id="both crashed before the next one started"),
    ],
)
def test_lc_4_2_3_neighbours_that_were_started_before_do_not_wait_for_each_other(seen: Observed) -> None:
    decision = decide(pod("m", init=(sidecar("s1"), sidecar("s2"), "i")), seen, memory(), T0 + 10)
    assert [a.name for a in decision.actions if isinstance(a, StartContainer)] == ["s1", "s2"]


def test_lc_4_2_7_a_sidecar_that_cannot_start_again_leaves_the_mains_alone() -> None:
    lives = {"s": [Life(3), Life(pulls=False)], "m": [Life(6, code=1), Life()]}
    world = World(pod("m", init=(sidecar("s"),)), lives).run(60)
    assert len(world.times("m", "start")) == 2
    state = status_of(world.status, "s").state
    assert state.terminated is not None  # LC 11.2.6: its last Completed stays
    assert state.terminated.reason == "Completed"


def test_lc_4_3_a_container_s_own_policy_decides_over_its_pod() -> None:
    retried = sidecar("i")
    retried = msgspec.structs.replace(retried, restart_policy="OnFailure")
    world = World(pod("m", init=(retried,), policy="Never"), {"i": [Life(1, code=1), Life(1)]}).run(20)
    assert world.phases[-1] == "Running"
    never = msgspec.structs.replace(retried, restart_policy="Never")
    world = World(pod("m", init=(never,)), {"i": [Life(1, code=1)]}).run(20)
    assert world.phases[-1] == "Failed"
    assert world.finished


def test_lc_4_3_later_entries_of_a_failed_pod_stay_waiting() -> None:
    world = World(pod("m", init=("i", sidecar("s")), policy="Never"), {"i": [Life(1, code=2)]}).run(20)
    for name in ("s", "m"):
        found = status_of(world.status, name)
        assert found.state.waiting is not None
        assert (found.state.waiting.reason, found.restart_count) == ("PodInitializing", 0)


def test_lc_4_3_an_init_container_without_image_has_not_failed() -> None:
    lives = {"i": [Life(pulls=False), Life(pulls=False), Life(1)]}
    world = World(pod("m", init=("i",), policy="Never"), lives).run(60)
    assert world.phases == ["Pending", "Running"]


@pytest.mark.parametrize("main_runs", [True, False])
def test_lc_4_4_completion_outlives_the_record(*, main_runs: bool) -> None:
    lives = {"i1": [Life(1)], "i2": [Life(1)], "m": [Life() if main_runs else Life(2, code=1)]}
    world = World(pod("m", init=("i1", "i2")), lives).run(5)
    world.records = [r for r in world.records if r.name == "m"]
    world.run(60)
    assert len(world.times("i2", "start")) == 1
    assert status_of(world.status, "i2").state.terminated is not None


def test_lc_4_4_completion_in_the_middle_of_the_sequence_outlives_the_record() -> None:
    done = memory(init_done={"sb0": frozenset({"i1", "i2"})})
    subject = pod(init=("i1", "i2", "i3"))
    assert walk(subject, observed(), done).init_to_start == (2,)
    assert walk(pod(init=("i1", "i2")), observed(), done).initialized
    assert walk(subject, observed(sandboxes=()), done).init_to_start == (0,)


def test_lc_4_4_a_sidecar_whose_record_is_gone_is_started_again() -> None:
    world = World(pod("m", init=(sidecar("s"),))).run(5)
    world.processes = {cid: p for cid, p in world.processes.items() if p.record.name != "s"}
    world.records = [r for r in world.records if r.name != "s"]
    world.run(0)
    world.edit(world.pod)
    found = status_of(world.status, "s")
    assert found.restart_count == 1
    assert found.last_state.terminated is not None
    assert (found.last_state.terminated.exit_code, found.last_state.terminated.reason) == (
        137,
        "ContainerStatusUnknown",
    )
    world.run(5)
    found = status_of(world.status, "s")
    assert (found.restart_count, found.state.running is not None) == (1, True)
    assert found.last_state.terminated is not None


def test_lc_4_5_only_name_and_image_make_a_change() -> None:
    world = World(pod("m", init=(sidecar("s"),))).run(5)
    edited = pod(
        msgspec.structs.replace(world.pod.spec.containers[0], command=("other",)),
        init=(sidecar("s", args=("x",)),),
    )
    world.edit(edited)
    world.run(30)
    assert world.order("start") == ["s", "m"]


def test_lc_4_5_a_record_without_a_hash_is_left_alone() -> None:
    assert plan(pod(), observed(running("m", hash="")), memory()).to_kill == ()


def test_lc_4_5_a_main_that_ended_for_good_is_not_run_for_an_edit() -> None:
    seen = observed(exited("m", hash="0ld"), running("n"))
    assert plan(pod("m", "n", policy="Never"), seen, memory()).to_start == ()


def test_lc_4_6_without_memory_started_is_false_until_the_probe_has_passed_again() -> None:
    world = World(pod("m", init=(sidecar("s", startup_probe=PROBE),))).run(5)
    world.kill_daemon()
    world.start_daemon(keep_memory=False)
    assert not status_of(world.status, "s").started
    assert world.order("start") == ["s", "m"]


def test_ph_7_1_a_sidecar_s_post_start_hook_is_part_of_its_gate() -> None:
    side = sidecar("s", lifecycle=hooks(post_start=True))
    seen = observed(running("s"))
    pending = memory(post_start={"s-id": HookState.PENDING})
    assert plan(pod(init=(side,)), seen, pending).to_start == ()
    assert plan(pod(init=(side,)), seen, memory(post_start={"s-id": HookState.DONE})).to_start == (0,)
    assert plan(pod(init=(side,)), seen, memory(in_flight=frozenset({"start:s"}))).to_start == ()


def test_records_of_another_sandbox_are_no_part_of_the_sequence() -> None:
    old = exited("i", sandbox_id="sb0")
    two = (sandbox("sb1", attempt=1), sandbox("sb0", ready=False))
    assert plan(pod(init=("i",)), observed(old, sandboxes=two), memory()).init_to_start == (0,)


def test_an_unknown_sidecar_is_killed_and_started() -> None:
    found = plan(pod(init=(sidecar("s"),)), observed(record("s", RecordState.UNKNOWN)), memory())
    assert [order.message for order in found.to_kill] == [
        'Init container is in "unknown" state, try killing it before restart'
    ]
    assert found.init_to_start == (0,)
