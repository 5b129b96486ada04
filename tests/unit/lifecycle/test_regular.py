"""LC 5 and 9: regular containers, completion, and RestartAllContainers."""

from __future__ import annotations

import pytest

from minikubelet.api.pod import ContainerRestartRule, Pod, RestartRuleExitCodes
from minikubelet.lifecycle.actions import RemoveContainer, StartContainer, StopContainer
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import Kill, KillReason, ProbeResult, StopCause
from minikubelet.lifecycle.plan import plan
from minikubelet.lifecycle.records import RecordState
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

FAILING = {
    "liveness": results(startup=ProbeResult.SUCCESS, liveness=ProbeResult.FAILURE),
    "startup": results(startup=ProbeResult.FAILURE),
    "both": results(startup=ProbeResult.FAILURE, liveness=ProbeResult.FAILURE),
}


def probed(policy: str) -> Pod:
    return pod(container("m", startup_probe=PROBE, liveness_probe=PROBE), "n", policy=policy)


@pytest.mark.parametrize(
    ("failing", "policy", "message", "reason"),
    [
        ("liveness", "Always", "Container m failed liveness probe, will be restarted", KillReason.LIVENESS),
        ("liveness", "OnFailure", "Container m failed liveness probe, will be restarted", KillReason.LIVENESS),
        ("liveness", "Never", "Container m failed liveness probe", KillReason.LIVENESS),
        ("startup", "Always", "Container m failed startup probe, will be restarted", KillReason.STARTUP),
        ("startup", "Never", "Container m failed startup probe", KillReason.STARTUP),
        ("both", "Always", "Container m failed liveness probe, will be restarted", KillReason.LIVENESS),
    ],
)
def test_lc_5_1_a_failed_probe_kills(failing: str, policy: str, message: str, reason: KillReason) -> None:
    seen = observed(running("m"), running("n"))
    found = plan(probed(policy), seen, memory(probes={"m-id": FAILING[failing]}))
    assert [(order.message, order.reason) for order in found.to_kill] == [(message, reason)]
    assert found.to_start == ((0,) if policy != "Never" else ())


@pytest.mark.parametrize("state", [RecordState.UNKNOWN, RecordState.CREATED])
def test_lc_5_1_a_container_that_does_not_run_is_started(state: RecordState) -> None:
    found = plan(pod("m", "n", policy="Never"), observed(record("m", state), running("n")), memory())
    assert found.to_start == (0,)
    assert len(found.to_kill) == (state is RecordState.UNKNOWN)


def test_lc_5_1_a_result_of_a_probe_that_an_edit_removed_kills_nothing() -> None:
    found = plan(pod(), observed(running("m")), memory(probes={"m-id": FAILING["both"]}))
    assert found.to_kill == ()


@pytest.mark.parametrize(
    ("reason", "policy", "start", "complete"),
    [
        (KillReason.LIVENESS, "Always", (0,), False),
        (KillReason.LIVENESS, "Never", (), True),
        (KillReason.CHANGED, "Never", (0,), False),
        (KillReason.POST_START, "Never", (), False),  # its exit code will tell
    ],
)
def test_lc_5_1_a_container_being_killed_counts_as_what_comes_after_it(
    reason: KillReason, policy: str, start: tuple[int, ...], *, complete: bool
) -> None:
    kill = Kill(reason=reason, message="", began=T0, grace=30)
    found = plan(pod(policy=policy), observed(running("m")), memory(kills={"m-id": kill}))
    assert (found.to_start, found.kill_pod) == (start, complete)


def test_lc_5_1_mains_start_one_after_the_other() -> None:
    """LC 1.3.8."""
    first = decide(pod("a", "b", "c"), observed(), memory(), T0 + 1)
    assert [action.key for action in first.actions] == ["start:a"]
    world = World(pod("a", "b", "c"), {"b": [Life(pulls=False)]}).run(5)
    assert world.order("start") == ["a", "c"]  # a start that fails holds nothing back
    world = World(pod("a", "b"), {"a": [Life(0, code=1)]}).run(5)
    assert world.first("b", "start") == world.times("a", "start")[1]  # nor does a restart


def test_lc_5_1_readiness_and_startup_of_one_main_hold_no_other_back() -> None:
    slow = container("a", startup_probe=PROBE, readiness_probe=PROBE)
    world = World(pod(slow, "b"), {"a": [Life(up_after=50)]}).run(5)
    assert world.order("start") == ["a", "b"]


def test_lc_9_1_a_main_that_could_not_start_prevents_completion() -> None:
    world = World(pod("a", "b", policy="Never"), {"a": [Life(1)], "b": [Life(pulls=False)]}).run(60)
    assert not world.finished
    assert world.phases == ["Pending"]


def test_lc_9_1_always_never_completes() -> None:
    assert not plan(pod(), observed(exited("m")), memory()).kill_pod


def test_lc_9_2_sidecars_end_with_the_whole_grace_and_are_not_restarted() -> None:
    lives = {"m": [Life(3)], "s1": [Life(on_term=None)], "s2": [Life(4.5)]}
    subject = pod("m", init=(sidecar("s1"), sidecar("s2")), policy="Never", termination_grace_period_seconds=6)
    world = World(subject, lives).run()
    assert len(world.times("s2", "start")) == 1
    assert world.first("s1", "exit 137") == world.first("m", "exit") + 6


def test_lc_9_3_the_phase_stays_running_until_the_sidecars_are_down() -> None:
    world = World(pod("m", init=(sidecar("s"),), policy="Never"), {"m": [Life(3)], "s": [Life(on_term=5)]}).run()
    ended = next(at for at, status in world.statuses if status.phase == "Succeeded")
    assert ended == world.first("s", "exit")
    assert world.phases == ["Pending", "Running", "Succeeded"]


def test_lc_9_4_sidecar_codes_do_not_matter_but_a_killed_main_s_do() -> None:
    main = container("m", liveness_probe=PROBE)
    lives = {"m": [Life(dies_at=2)], "s": [Life(term_code=7)]}
    world = World(pod(main, init=(sidecar("s"),), policy="Never"), lives).run()
    assert world.phases[-1] == "Succeeded"


def test_ph_5_1_the_pod_s_grace_is_used_when_the_last_main_fails_its_probe() -> None:
    probe = type(PROBE)(exec=PROBE.exec, termination_grace_period_seconds=3)
    deaf = [Life(dies_at=2, on_term=None)]
    alone = pod(container("m", liveness_probe=probe), policy="Never", termination_grace_period_seconds=12)
    world = World(alone, {"m": deaf}).run()
    assert world.first("m", "exit") - world.first("m", "term") == 12
    beside = pod(container("m", liveness_probe=probe), "n", policy="Never", termination_grace_period_seconds=12)
    world = World(beside, {"m": deaf}).run(60)
    assert world.first("m", "exit") - world.first("m", "term") == 3
    assert world.phases == ["Pending", "Running"]


def test_readme_5_probe_kills_count_for_back_off() -> None:
    """The kubelet gives two restarts for nothing (LC 7.7)."""
    main = container("m", liveness_probe=PROBE)
    world = World(pod(main, policy="OnFailure"), {"m": [Life(dies_at=1)]}).run(30)
    starts, exits = world.times("m", "start"), world.times("m", "exit")
    assert starts[1] - exits[0] == 0.125
    assert starts[2] - exits[1] == 10.125


# ---- LC 5.4 ------------------------------------------------------------------------------
RULE = ContainerRestartRule(action="RestartAllContainers", exit_codes=RestartRuleExitCodes(operator="In", values=(42,)))
ASKING = {"restart_policy": "Never", "restart_policy_rules": (RULE,)}


def test_lc_5_4_3_all_containers_start_anew_in_the_same_sandbox() -> None:
    lives = {"i": [Life(1)], "m": [Life(5, code=42), Life(5)], "n": [Life(on_term=5)]}
    subject = pod(
        container("m", **ASKING),
        container("n", lifecycle=hooks(pre_stop=True)),
        init=("i", sidecar("s")),
        policy="Never",
    )
    world = World(subject, lives).run(30)
    assert world.order("start") == ["i", "s", "m", "n"] * 2
    assert world.never("n", "preStop")
    assert world.times("n", "term") == world.times("s", "term")  # no order, no grace
    assert world.first("n", "exit") == world.first("m", "exit") + 2
    assert world.order("made") == ["sandbox"]
    assert world.last("i", "start") < world.first("n", "exit") + 1  # no back-off
    assert [status_of(world.status, name).restart_count for name in "imns"] == [1, 1, 1, 1]
    assert world.phases == ["Pending", "Running", "Pending", "Running"]


def test_lc_5_4_4_what_is_shown_meanwhile() -> None:
    """The condition is LC 5.4.1."""
    world = World(pod(container("m", **ASKING), init=("i",)), {"i": [Life(3)], "m": [Life(5, code=42), Life()]}).run()
    during = [s for _, s in world.statuses if condition_of(s, "AllContainersRestarting")[0] == "True"]
    assert condition_of(during[0], "AllContainersRestarting") == (
        "True",
        "RestartAllContainersStarted",
        "container exited with restart policy rule",
    )
    assert {condition_of(s, "Initialized")[0] for s in during} == {"True"}
    shown = next(f for _, s in world.statuses if (f := status_of(s, "m")).state.waiting and f.last_state.terminated)
    assert shown.state.waiting is not None
    assert shown.last_state.terminated is not None
    text = "The container is removed because RestartAllContainers in place"
    assert (shown.state.waiting.reason, shown.state.waiting.message) == ("RestartingAllContainers", text)
    end = shown.last_state.terminated
    assert (end.exit_code, end.reason, end.message) == (137, "RestartingAllContainers", text)
    assert condition_of(world.status, "AllContainersRestarting")[0] == "False"


def test_lc_5_4_2_the_record_that_asked_is_removed_last_and_logs_are_kept() -> None:
    subject = pod(container("m", **ASKING), "n", init=("i",))
    seen = observed(exited("m", 42), exited("n"), exited("i"))
    first = decide(subject, seen, memory(), T0 + 10)
    assert first.memory.stopping is not None
    assert first.memory.stopping.cause is StopCause.RESTART_ALL
    removed = [a for a in first.actions if isinstance(a, RemoveContainer)]
    assert [(a.name, a.logs) for a in removed] == [("n", False), ("i", False)]
    left = decide(subject, observed(exited("m", 42)), first.memory, T0 + 11)
    assert [a.key for a in left.actions] == ["remove:m-id"]


def test_lc_5_4_an_init_container_or_sidecar_can_ask_too() -> None:
    own = sidecar("s", restart_policy_rules=(RULE,))
    world = World(pod("m", init=("i", own)), {"i": [Life(1)], "s": [Life(5, code=42), Life()]}).run(30)
    assert world.order("start") == ["i", "s", "m"] * 2


def test_lc_5_4_a_container_that_runs_asks_for_nothing() -> None:
    on_zero = ContainerRestartRule(
        action="RestartAllContainers", exit_codes=RestartRuleExitCodes(operator="In", values=(0,))
    )
    main = container("m", restart_policy="Never", restart_policy_rules=(on_zero,))
    assert plan(pod(main), observed(running("m")), memory()).to_reset == ()


def test_lc_5_4_a_trigger_of_an_older_sandbox_asks_for_nothing() -> None:
    seen = observed(exited("m", 42, sandbox_id="old"))
    assert plan(pod(container("m", **ASKING)), seen, memory()).to_reset == ()


def test_lc_4_5_a_changed_main_is_stopped_first_and_started_when_it_is_down() -> None:
    seen = observed(running("m", hash="0ld"))
    decision = decide(pod(policy="Never"), seen, memory(), T0 + 10)
    assert [type(a) for a in decision.actions] == [StopContainer]
    after = decide(pod(policy="Never"), observed(exited("m", finished_at=T0 + 11)), decision.memory, T0 + 11)
    assert [type(a) for a in after.actions] == [StartContainer]
    assert after.status.phase == "Running"
