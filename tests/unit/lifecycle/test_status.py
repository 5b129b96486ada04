"""LC 11.1 to 11.3, TM-4, README 7: what is published of a pod and its containers."""

from __future__ import annotations

import msgspec
import pytest

from minikubelet.api.status import (
    ContainerState,
    ContainerStatus,
    PodStatus,
    StateRunning,
    StateTerminated,
    StateWaiting,
)
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import HookState, Memory, ProbeResult, StartError, StopCause, Stopping
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
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
    sandbox,
    sidecar,
    status_of,
)
from tests.unit.lifecycle.simulator import Life, World

SUCCESS = ProbeResult.SUCCESS
HOOKED = hooks(post_start=True)
ENDED = StateTerminated(exit_code=3, reason="Error", container_id="containerd://old")


def published(name: str = "m", **fields: object) -> PodStatus:
    status = ContainerStatus(**{"name": name, **fields})  # type: ignore[arg-type]
    return PodStatus(container_statuses=(status,))


def shown(
    *records: ObservedContainer, name: str = "m", policy: str = "Always", **remembered: object
) -> ContainerStatus:
    return status_of(decide(pod(policy=policy), observed(*records), memory(**remembered), T0 + 10).status, name)


def test_lc_11_1_the_fields_of_a_pod() -> None:
    subject = pod("z", "a", init=("i2", "i1"))
    status = decide(subject, observed(sandboxes=(sandbox(ips=("10.0.0.9", "fd00::9")),)), memory(), T0 + 1.9).status
    assert [s.name for s in status.container_statuses] == ["a", "z"]
    assert [s.name for s in status.init_container_statuses] == ["i2", "i1"]
    assert (status.pod_ip, [a.ip for a in status.pod_ips]) == ("10.0.0.9", ["10.0.0.9", "fd00::9"])
    assert (status.start_time, status.qos_class, status.host_ip) == ("1970-01-12T13:46:40Z", "BestEffort", "")


def test_lc_11_1_the_ip_is_kept_after_the_end() -> None:
    world = World(pod("m", policy="Never"), {"m": [Life(1)]}).run()
    assert world.status.pod_ip == "10.0.0.9"


@pytest.mark.parametrize(("init", "reason"), [((), "ContainerCreating"), (("i",), "PodInitializing")])
def test_lc_11_2_1_the_start_value(init: tuple[str, ...], reason: str) -> None:
    last = ContainerState(terminated=ENDED)
    old = published(last_state=last, restart_count=4, image="sha256:9", container_id="containerd://old")
    found = status_of(decide(pod(init=init), observed(), memory(status=old), T0 + 1).status, "m")
    assert found.state.waiting is not None
    assert found.state.waiting.reason == reason
    assert (found.restart_count, found.last_state, found.image, found.container_id) == (4, last, "busybox:1.36", "")


def test_lc_11_2_1_an_old_terminated_state_stays() -> None:
    old = published(state=ContainerState(terminated=ENDED), restart_count=2)
    found = status_of(decide(pod(), observed(), memory(status=old), T0 + 1).status, "m")
    assert (found.state.terminated, found.restart_count) == (ENDED, 2)


def test_lc_11_2_3_without_a_name_from_the_runtime_the_image_is_the_spec_s() -> None:
    assert shown(running("m", image="")).image == "busybox:1.36"
    assert shown(running("m", image="docker.io/library/busybox:1.36")).image == "docker.io/library/busybox:1.36"


def test_lc_11_2_2_a_lost_container() -> None:
    old = published(state=ContainerState(running=StateRunning()), restart_count=2)
    found = status_of(decide(pod(), observed(), memory(status=old), T0 + 1).status, "m")
    lost = found.last_state.terminated
    assert lost is not None
    assert (lost.exit_code, lost.reason, found.restart_count) == (137, "ContainerStatusUnknown", 3)
    assert lost.message == (
        "The container could not be located when the pod was deleted.  The container used to be Running"
    )


@pytest.mark.parametrize(
    ("found", "old", "state"),
    [
        pytest.param(
            running("m"),
            None,
            ContainerState(running=StateRunning(started_at="1970-01-12T13:46:41Z")),
            id="LC-11.2.3 Running",
        ),
        pytest.param(
            exited("m", 3, message="oops"),
            None,
            ContainerState(
                terminated=StateTerminated(
                    exit_code=3,
                    reason="Error",
                    message="oops",
                    started_at="1970-01-12T13:46:41Z",
                    finished_at="1970-01-12T13:46:45Z",
                    container_id="containerd://m-id",
                )
            ),
            id="LC-11.2.3 Exited",
        ),
        pytest.param(
            exited("m", 128, started_at=0.0, finished_at=0.0, reason="StartError"),
            None,
            ContainerState(
                terminated=StateTerminated(exit_code=128, reason="StartError", container_id="containerd://m-id")
            ),
            id="LC-11.2.3 never started",
        ),
        pytest.param(
            record("m", RecordState.UNKNOWN),
            None,
            ContainerState(waiting=StateWaiting(message="the runtime does not know its state")),
            id="LC-11.2.3 Unknown",
        ),
        pytest.param(
            record("m", RecordState.UNKNOWN),
            published(state=ContainerState(running=StateRunning())),
            ContainerState(
                terminated=StateTerminated(
                    exit_code=137,
                    reason="ContainerStatusUnknown",
                    message="The container could not be located when the pod was terminated",
                    container_id="containerd://m-id",
                )
            ),
            id="LC-11.2.3 Unknown and was running",
        ),
    ],
)
def test_the_state_follows_the_newest_record(
    found: ObservedContainer, old: PodStatus | None, state: ContainerState
) -> None:
    assert shown(found, status=old, policy="Never").state == state


def test_lc_11_2_3_unknown_and_another_had_ended() -> None:
    old = published(state=ContainerState(terminated=ENDED), container_id="containerd://old")
    found = shown(record("m", RecordState.UNKNOWN), status=old)
    assert found.state.waiting is not None
    assert found.last_state.terminated == ENDED


def test_lc_11_2_3_created() -> None:
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    found = shown(record("m", RecordState.CREATED), running("n"), stopping=stop)
    assert found.state == ContainerState(waiting=StateWaiting(message="created, but not started"))


def test_lc_11_2_3_unknown_counts_as_a_restart_once() -> None:
    world = World(pod("m", policy="Never")).run(5)
    world.records = [msgspec.structs.replace(r, state=RecordState.UNKNOWN) for r in world.records]
    world.edit(world.pod)
    assert status_of(world.status, "m").restart_count == 1


def test_lc_11_2_4_the_last_state_is_the_second_newest_record() -> None:
    found = shown(running("m", id="b", restart_count=1), exited("m", 7, id="a"))
    assert found.last_state.terminated is not None
    assert (found.last_state.terminated.exit_code, found.restart_count) == (7, 1)


def test_lc_11_2_4_without_it_what_was_shown_before_becomes_the_last_state() -> None:
    old = published(state=ContainerState(terminated=ENDED), restart_count=1, container_id="containerd://old")
    found = shown(running("m", restart_count=2), status=old)
    assert found.last_state.terminated == ENDED
    kept = shown(running("m", restart_count=2), status=published(last_state=ContainerState(terminated=ENDED)))
    assert kept.last_state.terminated == ENDED


def test_lc_11_2_4_of_a_container_that_was_seen_running_the_last_state_stays() -> None:
    last = ContainerState(terminated=ENDED)
    old = published(state=ContainerState(running=StateRunning()), last_state=last, container_id="containerd://old")
    assert shown(running("m", restart_count=2), status=old).last_state == last


def test_lc_11_2_4_restart_counts_never_fall() -> None:
    assert shown(running("m", restart_count=1), status=published(restart_count=5)).restart_count == 5
    ended = published(state=ContainerState(terminated=ENDED), restart_count=5, container_id="containerd://old")
    assert shown(running("m", restart_count=1), status=ended).restart_count == 6


def test_lc_11_2_5_an_init_container_without_record_in_a_pod_that_runs() -> None:
    decision = decide(pod(init=("i", sidecar("s"))), observed(running("m")), memory(), T0 + 10)
    end = status_of(decision.status, "i").state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (0, "Completed")
    assert end.message == (
        "Unable to get init container status from container runtime and pod has been initialized,"
        " treat it as exited normally"
    )
    assert status_of(decision.status, "s").state.waiting is not None
    assert status_of(decision.status, "i").ready


def failing(reason: str = "CreateContainerError", **fields: object) -> dict[str, StartError]:
    error = StartError(**{"reason": reason, "message": "no", "at": T0 + 8, "retry_at": T0 + 99, **fields})  # type: ignore[arg-type]
    return {"m": error, "s": error, "i": error}


def test_lc_11_2_6_a_start_error_is_shown_and_the_end_moves_to_the_last_state() -> None:
    found = shown(exited("m", 4), start_errors=failing())
    assert found.state.waiting is not None
    assert found.last_state.terminated is not None
    assert (found.state.waiting.reason, found.last_state.terminated.exit_code) == ("CreateContainerError", 4)


def test_lc_11_2_6_not_if_it_will_not_be_started_again() -> None:
    assert shown(exited("m", 4), running("n"), start_errors=failing(), policy="Never").state.terminated is not None
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    seen = observed(exited("m", 4), running("s"))
    ending = decide(pod(init=(sidecar("s"),)), seen, memory(start_errors=failing(), stopping=stop), T0 + 10)
    assert status_of(ending.status, "m").state.terminated is not None


def test_lc_11_2_6_not_while_it_runs() -> None:
    """In a pod that is being stopped, a container whose hook failed is shown until it is down."""
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    subject = pod(container("m", lifecycle=HOOKED))
    hook = {"m-id": HookState.FAILED}
    decision = decide(
        subject, observed(running("m")), memory(start_errors=failing(), stopping=stop, post_start=hook), T0 + 10
    )
    assert status_of(decision.status, "m").state.running is not None


@pytest.mark.parametrize(("main", "waits"), [(running("m"), True), (exited("m"), False)])
def test_lc_11_2_6_a_sidecar_in_back_off_during_a_stop_waits_while_it_may_come_back(
    main: ObservedContainer, *, waits: bool
) -> None:
    stop = Stopping(cause=StopCause.REMOVED, began=T0 + 9, grace=30)
    seen = observed(main, exited("s", 1))
    busy = frozenset({"start:s"})
    decision = decide(
        pod(init=(sidecar("s"),)), seen, memory(start_errors=failing(), stopping=stop, in_flight=busy), T0 + 10
    )
    assert (status_of(decision.status, "s").state.waiting is not None) is waits


@pytest.mark.parametrize("code", [0, 1])
def test_lc_11_2_6_a_sidecar_that_exited_0_stays_completed(code: int) -> None:
    seen = observed(running("m"), exited("s", code))
    found = status_of(decide(pod(init=(sidecar("s"),)), seen, memory(start_errors=failing()), T0 + 10).status, "s")
    assert (found.state.terminated is not None) is (code == 0)


def test_lc_11_6_1_a_sidecar_in_back_off_ends_with_its_code() -> None:
    lives = {"m": [Life(8)], "s": [Life(2, code=6)]}
    world = World(pod("m", init=(sidecar("s"),), policy="Never"), lives).run(7)
    assert status_of(world.status, "s").state.waiting is not None
    world.run()
    end = status_of(world.status, "s").state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (6, "Error")


@pytest.mark.parametrize(("now", "reason"), [(T0 + 9, "ErrImagePull"), (T0 + 11, "ImagePullBackOff")])
def test_lc_6_2_a_failed_pull_turns_into_its_back_off(now: float, reason: str) -> None:
    errors = failing("ErrImagePull", later_reason="ImagePullBackOff", later_message="Back-off", later_at=T0 + 10)
    first = decide(pod(), observed(), memory(), T0 + 1).memory
    held = msgspec.structs.replace(first, start_errors=errors, in_flight=frozenset())
    decision = decide(pod(), observed(), held, now)
    state = status_of(decision.status, "m").state
    assert state.waiting is not None
    assert state.waiting.reason == reason
    assert decision.wake_at == (T0 + 10 if now < T0 + 10 else T0 + 99)


def test_tm_4_messages_share_12288_bytes() -> None:  # 13/message-size
    seen = observed(exited("m", 1, message="ä" * 10_000), exited("m", 1, message="x" * 10_000, id="older"))
    decision = decide(pod("m", "n", init=("i",), policy="Never"), seen, memory(), T0 + 10)
    found = status_of(decision.status, "m")
    assert found.state.terminated is not None
    assert found.last_state.terminated is not None
    assert found.state.terminated.message == "ä" * 2048
    assert found.last_state.terminated.message == "x" * 4096


@pytest.mark.parametrize(
    ("startup", "readiness", "probed", "expected"),
    [
        (None, None, False, (True, True)),
        (None, None, True, (False, False)),
        (ProbeResult.UNKNOWN, SUCCESS, True, (False, False)),
        (ProbeResult.FAILURE, SUCCESS, True, (False, False)),
        (SUCCESS, None, True, (True, False)),
        (SUCCESS, ProbeResult.FAILURE, True, (True, False)),
        (SUCCESS, SUCCESS, True, (True, True)),
    ],
)
@pytest.mark.parametrize("side", [False, True])
def test_lc_11_3_started_and_ready(
    *,
    startup: ProbeResult | None,
    readiness: ProbeResult | None,
    probed: bool,
    expected: tuple[bool, bool],
    side: bool,
) -> None:
    fields = {"startup_probe": PROBE, "readiness_probe": PROBE} if probed else {}
    subject = pod("m", init=(sidecar("x", **fields),)) if side else pod(container("x", **fields))
    found = results(startup=startup, readiness=readiness)  # type: ignore[arg-type]
    decision = decide(subject, observed(running("x")), memory(probes={"x-id": found}), T0 + 10)
    status = status_of(decision.status, "x")
    assert (status.started, status.ready) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [(running("i"), (True, False)), (exited("i"), (False, True)), (exited("i", 1), (False, False))],
)
def test_lc_11_3_init_containers(found: ObservedContainer, expected: tuple[bool, bool]) -> None:
    status = status_of(decide(pod(init=("i",)), observed(found), memory(), T0 + 10).status, "i")
    assert (status.started, status.ready) == expected


def test_readme_4_results_belong_to_one_container_id() -> None:
    main = container("m", startup_probe=PROBE)
    old = memory(probes={"a": results(startup=SUCCESS)})
    decision = decide(pod(main), observed(running("m", id="b"), exited("m", 1, id="a")), old, T0 + 10)
    assert not status_of(decision.status, "m").started


@pytest.mark.parametrize(
    ("seen", "remembered", "name", "text"),
    [
        (observed(sandboxes=()), memory(), "m", "waiting for the pod sandbox"),
        (
            observed(sandboxes=()),
            memory(sandbox_hindered='configmap "c" not found'),
            "m",
            'waiting for the pod sandbox: configmap "c" not found',
        ),
        (observed(), memory(), "i", "its image is being made ready and the container created"),
        (observed(), memory(), "s", "waiting for init container i to start"),
        (observed(running("i")), memory(), "s", "waiting for init container i to complete"),
        (observed(exited("i")), memory(), "m", "waiting for sidecar s to start"),
        (observed(exited("i"), exited("s", 1)), memory(), "m", "waiting for sidecar s to run"),
        (observed(exited("i"), running("s")), memory(), "m", "waiting for the startup probe of sidecar s"),
        (
            observed(exited("i"), running("s")),
            memory(probes={"s-id": results(startup=SUCCESS)}, post_start={"s-id": HookState.PENDING}),
            "m",
            "waiting for the postStart hook of sidecar s",
        ),
        (
            observed(exited("i"), running("s")),
            memory(probes={"s-id": results(startup=SUCCESS)}),
            "n",
            "waiting for container m to be started",
        ),
        (
            observed(running("m"), exited("i"), running("s")),
            memory(probes={"s-id": results(startup=SUCCESS)}, post_start={"m-id": HookState.PENDING}),
            "n",
            "waiting for the postStart hook of container m",
        ),
        (
            observed(running("m"), exited("i"), running("s")),
            memory(probes={"s-id": results(startup=SUCCESS)}, post_start={"m-id": HookState.PENDING}),
            "m",
            "waiting for its postStart hook to end",
        ),
        (
            observed(running("s")),
            memory(stopping=Stopping(cause=StopCause.REMOVED, began=T0, grace=30)),
            "m",
            "not started: the pod is being stopped",
        ),
    ],
)
def test_readme_7_every_waiting_state_says_what_it_waits_for(
    seen: Observed, remembered: Memory, name: str, text: str
) -> None:
    side = sidecar("s", startup_probe=PROBE, lifecycle=HOOKED)
    subject = pod(container("m", lifecycle=HOOKED), "n", init=("i", side))
    decision = decide(subject, seen, remembered, T0 + 10)
    waiting = status_of(decision.status, name).state.waiting
    assert waiting is not None
    assert waiting.message == text


def test_readme_7_a_start_that_is_held_back_says_that_it_is_due() -> None:
    busy = memory(in_flight=frozenset({"sandbox"}))
    waiting = status_of(decide(pod(), observed(), busy, T0 + 10).status, "m").state.waiting
    assert waiting is not None
    assert waiting.message == "about to be started"


def test_ph_7_1_a_restarted_container_in_its_hook_shows_its_last_end() -> None:
    main = container("m", lifecycle=HOOKED)
    world = World(pod(main), {"m": [Life(1, code=5), Life(post_start=20)]}).run(5)
    end = status_of(world.status, "m").state.terminated
    assert end is not None
    assert end.exit_code == 5
    assert world.status.phase == "Running"


def test_a_status_does_not_change_without_a_reason() -> None:
    world = World(pod("m", init=("i", sidecar("s"))), {"i": [Life(1)]}).run(1000)
    assert len(world.statuses) < 12
    assert condition_of(world.status, "Ready") == ("True", "", "")
