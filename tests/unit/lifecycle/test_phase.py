"""LC 11.4 to 11.6: phase, conditions and final statuses."""

from __future__ import annotations

import pytest

from minikubelet.api.pod import Container, ContainerRestartRule, Pod, RestartRuleExitCodes
from minikubelet.api.scheduling import PodReadinessGate
from minikubelet.api.status import PodCondition, PodStatus
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import Kill, KillReason, ProbeResult, StartError, StopCause, Stopping
from minikubelet.lifecycle.records import Observed, ObservedContainer
from tests.unit.lifecycle.build import (
    PROBE,
    T0,
    condition_of,
    container,
    exited,
    memory,
    observed,
    pod,
    results,
    running,
    sandbox,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World

NOT_STARTED = sidecar("s", startup_probe=PROBE)
PULL = StartError(reason="ErrImagePull", message="no", at=T0 + 8, retry_at=T0 + 99)
CRASH = StartError(reason="CrashLoopBackOff", message="no", at=T0 + 8, retry_at=T0 + 99)


@pytest.mark.parametrize(
    ("subject", "seen", "phase"),
    [
        pytest.param(pod(init=("i",), policy="Never"), [exited("i", 1)], "Failed", id="LC-11.4.1 fatal init"),
        pytest.param(pod(init=("i",)), [exited("i", 1)], "Pending", id="LC-11.4.8 init restarts"),
        pytest.param(pod(init=("i",)), [running("i")], "Pending", id="LC-11.4.2 init runs"),
        pytest.param(pod(init=("i",)), [], "Pending", id="LC-11.4.2 init waits"),
        pytest.param(pod(init=(NOT_STARTED,)), [running("s")], "Pending", id="LC-11.4.2 sidecar not started"),
        pytest.param(pod(init=(NOT_STARTED,)), [running("m"), running("s")], "Running", id="LC-11.4.2 a main ran"),
        pytest.param(pod(init=(NOT_STARTED,)), [running("s"), exited("m", 1, sandbox_id="old")], "Pending",
                     id="LC-11.4.2 no main ran in this sandbox"),
        pytest.param(pod("m", "n"), [running("m")], "Pending", id="LC-11.4.3 one main waits"),
        pytest.param(pod(), [running("m")], "Running", id="LC-11.4.4 main runs"),
        pytest.param(pod("m", "n", policy="Never"), [running("m"), exited("n", 1)], "Running",
                     id="LC-11.4.4 one ended"),
        pytest.param(pod(init=(sidecar("s"),), policy="Never"), [exited("m"), running("s")], "Running",
                     id="LC-11.4.4 only a sidecar runs"),
        pytest.param(pod(), [exited("m", 1)], "Running", id="LC-11.4.5 restarts"),
        pytest.param(pod("m", "n", policy="OnFailure"), [exited("m"), exited("n", 1)], "Running",
                     id="LC-11.4.5 one restarts"),
        pytest.param(pod(policy="OnFailure"), [exited("m")], "Succeeded", id="LC-11.4.6 all 0"),
        pytest.param(pod("m", "n", policy="Never"), [exited("m"), exited("n", 1)], "Failed", id="LC-11.4.7 not all 0"),
        pytest.param(pod(container("m", restart_policy="Never")), [exited("m", 3)], "Failed", id="LC-5.3 own policy"),
        pytest.param(pod(init=(sidecar("s"),), policy="Never"), [exited("m"), exited("s", 7)], "Succeeded",
                     id="LC-9.4 sidecar codes"),
    ],
)  # fmt: skip
def test_the_phase(subject: Pod, seen: list[ObservedContainer], phase: str) -> None:
    assert decide(subject, observed(*seen), memory(), T0 + 10).status.phase == phase


def test_lc_11_4_a_waiting_main_counts_as_stopped_if_it_ran_before() -> None:
    seen = observed(exited("m", 1))
    first = decide(pod(), seen, memory(), T0 + 5)
    crashing = decide(pod(), seen, memory(backoff=first.memory.backoff, start_errors={"m": CRASH}), T0 + 6)
    assert status_of(crashing.status, "m").state.waiting is not None
    assert crashing.status.phase == "Running"


def test_lc_11_4_a_sidecar_in_back_off_has_no_effect_once_it_ran() -> None:
    world = World(pod("m", init=(sidecar("s"),)), {"s": [Life(3, code=1)]}).run(8)
    assert status_of(world.status, "s").state.waiting is not None
    assert world.status.phase == "Running"


def test_lc_11_4_a_main_being_replaced_does_not_end_its_pod() -> None:
    kill = Kill(reason=KillReason.CHANGED, message="", began=T0, grace=1)
    decision = decide(pod(policy="Never"), observed(exited("m", 1)), memory(kills={"m-id": kill}), T0 + 10)
    assert decision.status.phase == "Running"


def test_lc_11_4_a_final_phase_never_changes() -> None:
    for phase in ("Succeeded", "Failed"):
        old = PodStatus(phase=phase, reason="R", message="M")
        status = decide(pod(), observed(running("m")), memory(status=old), T0 + 10).status
        assert (status.phase, status.reason, status.message) == (phase, "R", "M")


def test_a_sandbox_that_is_replaced_makes_no_phase_final() -> None:
    own = container("i", restart_policy="Never")
    world = World(pod("m", init=(own,)), {"i": [Life(20, term_code=1), Life(1)]}).run(5)
    world.sandbox_dies()
    world.run(60)
    assert world.phases == ["Pending", "Running"]


# ---- conditions ---------------------------------------------------------------------
SIDE = sidecar("s", readiness_probe=PROBE)
INITIALIZED, READY, CONTAINERS = "Initialized", "Ready", "ContainersReady"


@pytest.mark.parametrize(
    ("subject", "seen", "kind", "expected"),
    [
        pytest.param(pod(), observed(sandboxes=()), "PodReadyToStartContainers", ("False", "", ""),
                     id="LC-11.5 no sandbox"),
        pytest.param(pod(), observed(), "PodReadyToStartContainers", ("True", "", ""), id="LC-11.5 sandbox"),
        pytest.param(pod(), observed(), "PodScheduled", ("True", "", ""), id="LC-11.5 scheduled"),
        pytest.param(pod(init=("i", SIDE)), observed(), INITIALIZED,
                     ("False", "ContainersNotInitialized", "containers with incomplete status: [i s]"),
                     id="LC-11.5 incomplete"),
        pytest.param(pod(init=("i", SIDE)), observed(exited("i"), running("s")), INITIALIZED, ("True", "", ""),
                     id="LC-11.5 all init entries are done"),
        pytest.param(pod(init=("i", SIDE)), observed(running("m")), INITIALIZED, ("True", "", ""),
                     id="LC-11.5 a main runs"),
        pytest.param(pod(policy="Never"), observed(exited("m")), INITIALIZED, ("True", "PodCompleted", ""),
                     id="LC-11.5 Succeeded"),
        pytest.param(pod("m", "a", init=(SIDE,)), observed(running("s")), CONTAINERS,
                     ("False", "ContainersNotReady", "containers with unready status: [s m a]"), id="LC-11.5 unready"),
        pytest.param(pod("m", "a", init=(SIDE,)), observed(running("s")), READY,
                     ("False", "ContainersNotReady", "containers with unready status: [s m a]"), id="LC-11.5 both"),
        pytest.param(pod(), observed(running("m")), READY, ("True", "", ""), id="LC-11.5 Ready"),
        pytest.param(pod(policy="Never"), observed(exited("m")), READY, ("False", "PodCompleted", ""),
                     id="LC-11.5 Ready of Succeeded"),
        pytest.param(pod(policy="Never"), observed(exited("m", 1)), CONTAINERS, ("False", "PodFailed", ""),
                     id="LC-11.5 Failed"),
        pytest.param(pod(readiness_gates=(PodReadinessGate(condition_type="x"), PodReadinessGate(condition_type="y"))),
                     observed(running("m")), READY,
                     ("False", "ReadinessGatesNotReady",
                      ", ".join(f'corresponding condition of pod readiness gate "{x}" does not exist.' for x in "xy")),
                     id="LC-11.5 readiness gates"),
    ],
)  # fmt: skip
def test_conditions(subject: Pod, seen: Observed, kind: str, expected: tuple[str, str, str]) -> None:
    assert condition_of(decide(subject, seen, memory(), T0 + 10).status, kind) == expected


RULE = ContainerRestartRule(action="RestartAllContainers", exit_codes=RestartRuleExitCodes(operator="In", values=(42,)))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (None, ("False", "", "")),
        (0, ("False", "PodCompleted", "")),
        (1, ("False", "PodFailed", "")),
        (42, ("True", "RestartAllContainersStarted", "container exited with restart policy rule")),
    ],
)
def test_lc_11_5_all_containers_restarting(code: int | None, expected: tuple[str, str, str]) -> None:
    main = container("m", restart_policy="Never", restart_policy_rules=(RULE,))
    seen = observed(running("m") if code is None else exited("m", code))
    status = decide(pod(main, policy="Never"), seen, memory(), T0 + 10).status
    assert condition_of(status, "AllContainersRestarting") == expected
    assert [c.type for c in status.conditions] == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "AllContainersRestarting",
    ]


def test_lc_11_5_initialized_stays_true() -> None:
    before = PodStatus(conditions=(PodCondition(type="Initialized", status="True"),))
    status = decide(pod(init=("i",)), observed(running("i")), memory(status=before), T0 + 10).status
    assert condition_of(status, "Initialized")[0] == "True"


def test_lc_11_5_a_transition_time_moves_only_with_the_status() -> None:
    world = World(pod("m"), {"m": [Life(5, code=1), Life()]}).run(60)
    times: dict[str, list[tuple[str, str | None]]] = {}
    for _, status in world.statuses:
        for condition in status.conditions:
            seen = times.setdefault(condition.type, [])
            if not seen or seen[-1] != (condition.status, condition.last_transition_time):
                seen.append((condition.status, condition.last_transition_time))
    assert [value for value, _ in times["Ready"]] == ["False", "True", "False", "True"]
    assert [value for value, _ in times["Initialized"]] == ["True"]


# ---- final statuses ---------------------------------------------------------------------
def finals(subject: Pod, seen: Observed, **remembered: object) -> PodStatus:
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    down = Observed(sandboxes=(sandbox(ready=False),), containers=seen.containers)
    stopped = frozenset({"sb0"})
    return decide(subject, down, memory(stopping=stop, stopped_sandboxes=stopped, **remembered), T0 + 12).status


@pytest.mark.parametrize(
    ("mains", "seen", "phase"),
    [
        pytest.param(("m", "n"), [exited("m"), exited("n")], "Succeeded", id="LC-11.6.4 all 0"),
        pytest.param(("m", "n"), [exited("m"), exited("n", 143)], "Failed", id="LC-11.6.4 not all 0"),
        pytest.param(("m", "n"), [exited("m")], "Failed", id="LC-11.6.4 one never ran"),
        pytest.param(("m",), [], "Failed", id="LC-11.6.4 none ran"),
    ],
)
def test_the_phase_of_a_removed_pod(mains: tuple[str, ...], seen: list[ObservedContainer], phase: str) -> None:
    assert finals(pod(*mains), observed(*seen)).phase == phase


def ended(status: PodStatus, name: str) -> tuple[int, str] | str:
    state = status_of(status, name).state
    if state.terminated is not None:
        return state.terminated.exit_code, state.terminated.reason
    assert state.waiting is not None
    return state.waiting.reason


LOST = (137, "ContainerStatusUnknown")


def test_lc_11_6_1_ends_are_kept() -> None:
    status = finals(pod(init=("i", sidecar("s"))), observed(exited("m"), exited("i"), exited("s", 7)))
    assert [ended(status, name) for name in "ism"] == [(0, "Completed"), (7, "Error"), (0, "Completed")]
    assert status_of(status, "i").ready


def test_lc_11_6_2_mains_that_never_ran() -> None:
    assert ended(finals(pod(init=("i",)), observed(exited("i", 1))), "m") == "PodInitializing"
    assert ended(finals(pod(), observed()), "m") == LOST


def test_lc_11_6_3_init_entries_that_were_reached() -> None:
    entries: tuple[Container | str, ...] = ("i1", sidecar("s"), "i2")
    status = finals(pod(init=entries), observed())
    assert [ended(status, name) for name in ("i1", "s", "i2")] == [LOST, "PodInitializing", "PodInitializing"]
    errors = {"s": PULL}
    status = finals(pod(init=entries), observed(exited("i1")), start_errors=errors)
    assert [ended(status, name) for name in ("i1", "s", "i2")] == [(0, "Completed"), "ErrImagePull", "PodInitializing"]
    status = finals(pod(init=entries), observed(exited("i2", 1), exited("i1")))
    assert [ended(status, name) for name in ("i1", "s", "i2")] == [(0, "Completed"), LOST, (1, "Error")]


def test_lc_11_6_a_final_status_is_not_touched_again() -> None:
    ready = results(readiness=ProbeResult.SUCCESS)
    old = PodStatus(phase="Succeeded", start_time="then")
    stop = Stopping(cause=StopCause.COMPLETED, began=T0 + 9, grace=30)
    done = memory(status=old, stopping=stop, stopped=True, probes={"m-id": ready})
    assert decide(pod(), observed(exited("m", 1)), done, T0 + 12).status == old


def test_lc_11_6_a_final_status_that_was_lost_is_made_up_again() -> None:
    stop = Stopping(cause=StopCause.COMPLETED, began=T0 + 9, grace=30)
    status = decide(pod(policy="Never"), observed(exited("m", 1)), memory(stopping=stop, stopped=True), T0 + 12).status
    assert status.phase == "Failed"


def test_lc_11_5_initialized_of_a_pod_that_failed_in_init_names_its_sidecars_once_they_are_down() -> None:
    world = World(pod("m", init=(sidecar("s"), "i"), policy="Never"), {"i": [Life(1, code=1)]}).run()
    assert condition_of(world.status, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [s i]",
    )
