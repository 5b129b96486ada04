"""When probes run and what their outcomes lead to, in virtual time (PH 4, 5, 8, 9 with README items 2 and 4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, EnvVar, ExecAction, Pod, PodSpec, Probe, TCPSocketAction
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import ProbeResult, ProbeResults
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.http_client import HttpClient
from minikubelet.pods.probes.prober import ContainerProber, last_due
from minikubelet.runtime.cri import ExecResult
from minikubelet.runtime.errors import ContainerRuntimeError, DeadlineExceededError

pytestmark = pytest.mark.looptime

S, F = ProbeResult.SUCCESS, ProbeResult.FAILURE
#: Unix time of the loop's second 0.
EPOCH = 1_000_000.0

#: What a run of a probe does: takes so many seconds, then exits with a code, or raises.
Run = tuple[float, int | ContainerRuntimeError]
OK: Run = (0, 0)
BAD: Run = (0, 1)
NO_EXEC: Run = (0, ContainerRuntimeError("no such file"))


class World:
    """A container whose probes are exec probes named after their kind; it notes all that happens, with its second."""

    def __init__(self, script: Callable[[str, int], Run]) -> None:
        self._script = script
        self._numbers: dict[str, int] = {}
        self.runs: list[tuple[str, float]] = []
        self.results: list[tuple[str, float, ProbeResult]] = []
        self.events: list[Event] = []
        self.ended_calls: list[tuple[str, float]] = []
        self.address = "192.0.2.1"
        self.runtime_is_well = True

    def seconds(self, kind: str) -> list[float]:
        return [second for name, second in self.runs if name == kind]

    def verdicts(self, kind: str) -> list[tuple[float, ProbeResult]]:
        return [(second, result) for name, second, result in self.results if name == kind]

    async def exec_sync(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout: int,  # noqa: ASYNC109
        patience: float | None = None,
    ) -> ExecResult:
        assert container_id == "id"
        assert timeout > 0
        assert patience
        kind = command[0]
        self.runs.append((kind, self._now()))
        number = self._numbers[kind] = self._numbers.get(kind, -1) + 1
        duration, end = self._script(kind, number)
        try:
            await asyncio.sleep(duration)
        finally:
            self.ended_calls.append((kind, self._now()))
        if isinstance(end, ContainerRuntimeError):
            raise end
        return ExecResult(exit_code=end, stdout=b"out", stderr=b"")

    async def runtime_answers(self) -> bool:
        return self.runtime_is_well

    def event(self, pod: Pod, event: Event) -> None:
        assert pod.metadata.name == "web"
        self.events.append(event)

    def result(self, container_id: str, kind: str, result: ProbeResult) -> None:
        assert container_id == "id"
        self.results.append((kind, self._now(), result))

    @staticmethod
    def _now() -> float:
        return round(asyncio.get_running_loop().time(), 3)

    def prober(
        self, container: Container, *, started: float = 0.0, seeds: ProbeResults | None = None
    ) -> ContainerProber:
        pod = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"), spec=PodSpec(containers=(container,)))
        return ContainerProber(
            pod,
            container,
            container_id="id",
            started_at=EPOCH + started,
            address=lambda: self.address,
            seeds=seeds or ProbeResults(),
            on_result=self.result,
            clients=Clients(exec_sync=self.exec_sync, http=HttpClient(), runtime_answers=self.runtime_answers),
            recorder=self,
            clock=lambda: EPOCH + asyncio.get_running_loop().time(),
        )


def every(run: Run) -> Callable[[str, int], Run]:
    return lambda _kind, _number: run


def exec_probe(
    kind: str, *, period: int = 1, delay: int = 0, timeout: int = 1, success: int = 1, failures: int = 1
) -> Probe:
    return Probe(
        exec=ExecAction(command=(kind,)),
        period_seconds=period,
        initial_delay_seconds=delay,
        timeout_seconds=timeout,
        success_threshold=success,
        failure_threshold=failures,
    )


def container(**probes: Probe) -> Container:
    return msgspec.structs.replace(Container(name="a"), **{f"{kind}_probe": probe for kind, probe in probes.items()})


@contextlib.asynccontextmanager
async def probing(prober: ContainerProber) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(prober.run())
    await asyncio.sleep(0)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until(second: float) -> None:
    await asyncio.sleep(second - asyncio.get_running_loop().time())


# ---- when ----------------------------------------------------------------------------
async def test_the_first_run_is_at_once_and_then_one_every_period() -> None:
    world = World(every(OK))
    async with probing(
        world.prober(container(readiness=exec_probe("readiness", period=10), liveness=exec_probe("liveness", period=3)))
    ):
        await until(21)
    assert world.seconds("readiness") == [0, 10, 20]
    assert world.seconds("liveness") == [0, 3, 6, 9, 12, 15, 18, 21][: len(world.seconds("liveness"))]
    assert len(world.seconds("liveness")) >= 7


async def test_the_initial_delay_counts_from_the_true_start() -> None:
    world = World(every(OK))
    await until(2)
    prober = world.prober(container(readiness=exec_probe("readiness", delay=5, period=10)), started=0.75)
    async with probing(prober):
        await until(17)
    assert world.seconds("readiness") == [5.75, 15.75]


async def test_a_container_that_is_seen_late_is_probed_at_once() -> None:
    world = World(every(OK))
    await until(7)
    async with probing(world.prober(container(readiness=exec_probe("readiness", delay=5, period=10)))):
        await until(18)
    assert world.seconds("readiness") == [7, 17]


async def test_liveness_and_readiness_begin_the_moment_the_startup_probe_succeeds() -> None:
    world = World(lambda kind, number: BAD if kind == "startup" and number < 3 else (0.25, 0))
    probed = container(
        startup=exec_probe("startup", period=2, failures=30),
        liveness=exec_probe("liveness", period=10, delay=3),
        readiness=exec_probe("readiness", period=10, delay=8),
    )
    async with probing(world.prober(probed)):
        await until(12)
    assert world.seconds("startup") == [0, 2, 4, 6], "it has its verdict at 6.25"
    assert world.verdicts("startup") == [(6.25, S)]
    assert world.seconds("liveness") == [6.25], "its initial delay is over"
    assert world.seconds("readiness") == [8], "its initial delay, counted from the container's start, is not"


async def test_a_startup_failure_is_final_and_nothing_else_ever_runs() -> None:
    world = World(every(BAD))
    probed = container(
        startup=exec_probe("startup", failures=2), liveness=exec_probe("liveness"), readiness=exec_probe("readiness")
    )
    async with probing(world.prober(probed)):
        await until(30)
    assert world.runs == [("startup", 0), ("startup", 1)]
    assert world.results == [("startup", 1, F)]


async def test_a_failed_liveness_probe_pauses_for_this_container() -> None:
    world = World(every(BAD))
    async with probing(world.prober(container(liveness=exec_probe("liveness", period=2, failures=3)))) as task:
        await until(30)
        assert task.done(), "nothing is left to probe"
    assert world.seconds("liveness") == [0, 2, 4]
    assert world.results == [("liveness", 4, F)]


async def test_readiness_goes_on_whatever_comes() -> None:
    outcomes = [BAD, OK, OK, BAD, BAD, OK]
    world = World(lambda _kind, number: outcomes[number] if number < len(outcomes) else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", failures=2)))):
        await until(7.5)
    assert world.verdicts("readiness") == [(1, S), (4, F), (5, S)]
    assert world.seconds("readiness") == [0, 1, 2, 3, 4, 5, 6, 7]


async def test_a_success_threshold_is_reached_by_consecutive_successes() -> None:
    world = World(lambda _kind, number: BAD if number == 2 else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", success=3)))):
        await until(7.5)
    assert world.verdicts("readiness") == [(2, F), (5, S)]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(0.9, 1, id="not due yet"),
        pytest.param(1, 1, id="due now"),
        pytest.param(1.9, 1, id="late by less than a period: it is run at once"),
        pytest.param(2, 2, id="late by a period: that is the next one already"),
        pytest.param(4.5, 4, id="of several missed ticks only the last counts"),
    ],
)
def test_the_tick_that_a_late_run_is_for(now: float, expected: float) -> None:
    assert last_due(1, period=1, now=now) == expected


async def test_a_run_longer_than_the_period_is_followed_by_one_run_and_the_rhythm_stays() -> None:
    world = World(lambda _kind, number: (2.5, 0) if number == 1 else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", timeout=3)))):
        await until(5.5)
    assert world.seconds("readiness") == [0, 1, 3.5, 4, 5]


async def test_probes_of_one_container_do_not_hold_each_other_up() -> None:
    world = World(lambda kind, _number: (0.9, 0) if kind == "liveness" else OK)
    probed = container(liveness=exec_probe("liveness"), readiness=exec_probe("readiness"))
    async with probing(world.prober(probed)):
        await until(3.5)
    assert world.seconds("liveness") == world.seconds("readiness") == [0, 1, 2, 3]


# ---- timeouts -------------------------------------------------------------------------
async def test_a_timed_out_run_is_a_failure() -> None:
    world = World(every((1.02, DeadlineExceededError("timeout 1s exceeded"))))
    async with probing(world.prober(container(liveness=exec_probe("liveness", period=10, failures=2)))):
        await until(12)
    assert world.verdicts("liveness") == [(11.02, F)]
    text = 'Liveness probe failed: command timed out: "liveness" timed out after 1s'
    assert [event.message for event in world.events] == [text, text]


async def test_no_run_starts_while_the_process_of_the_last_one_lives() -> None:
    world = World(lambda _kind, number: (4.4, DeadlineExceededError("")) if number == 0 else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", failures=1)))):
        await until(6.5)
    assert world.verdicts("readiness") == [(1.5, F), (4.4, S)], "the verdict is not held up by the process"
    assert world.seconds("readiness") == [0, 4.4, 5, 6]


async def test_what_a_killed_command_left_behind_does_not_hold_up_the_next_run_for_long() -> None:
    world = World(lambda _kind, number: OK if number == 3 else (1000, 0))
    async with probing(world.prober(container(readiness=exec_probe("readiness", period=10, failures=4)))):
        await until(45)
    assert world.seconds("readiness") == [0, 10, 20, 30, 40]
    assert world.verdicts("readiness") == [(30, S)]


async def test_a_run_that_hangs_is_a_failure_each_time() -> None:
    world = World(every((1000, 0)))
    async with probing(world.prober(container(liveness=exec_probe("liveness", failures=3)))):
        await until(100)
    assert world.seconds("liveness") == [0, 6, 12], "5 s after each timeout the command is gone for sure"
    assert world.verdicts("liveness") == [(13.5, F)]


async def test_no_more_runs_hang_than_count() -> None:
    world = World(lambda _kind, number: (100, 0) if number < 4 else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", period=10, failures=2)))):
        await until(112)
    assert world.verdicts("readiness") == [(11.5, F)]
    assert world.seconds("readiness") == [0, 10, 100, 110], "as soon as one is gone"


async def test_a_runtime_that_is_stuck_is_given_no_more_to_do() -> None:
    world = World(every((1000, 0)))
    world.runtime_is_well = False
    async with probing(world.prober(container(liveness=exec_probe("liveness", failures=3)))):
        await until(50)
        assert world.seconds("liveness") == [0]
        world.runtime_is_well = True
        await until(58)
    assert world.seconds("liveness") == [0, 51, 57]
    assert world.verdicts("liveness") == []


# ---- errors ---------------------------------------------------------------------------
async def test_a_run_makes_three_attempts_on_errors_and_then_counts_for_nothing() -> None:
    world = World(lambda _kind, number: BAD if number in (0, 4) else NO_EXEC)
    async with probing(world.prober(container(liveness=exec_probe("liveness", period=10, failures=2)))):
        await until(25)
    assert world.seconds("liveness") == [0, 10, 10, 10, 20]
    assert world.verdicts("liveness") == [(20, F)], "the erroneous round between two failures does not reset them"
    assert world.events[1] == Event(
        type="Warning",
        reason="Unhealthy",
        message="Liveness probe errored and resulted in unknown state: rpc error: code = Unknown desc = no such file",
        container="a",
    )


async def test_a_success_on_the_second_attempt_ends_the_run() -> None:
    world = World(lambda _kind, number: NO_EXEC if number == 0 else OK)
    async with probing(world.prober(container(readiness=exec_probe("readiness", period=10)))):
        await until(5)
    assert world.seconds("readiness") == [0, 0]
    assert world.verdicts("readiness") == [(0, S)]
    assert world.events == []


async def test_a_pod_without_an_address_is_an_error_not_a_failure() -> None:
    world = World(every(OK))
    world.address = ""
    probed = container(liveness=Probe(tcp_socket=TCPSocketAction(port=1), failure_threshold=1))
    async with probing(world.prober(probed)):
        await until(5)
    assert world.results == []
    assert [event.message for event in world.events] == [
        "Liveness probe errored and resulted in unknown state: the pod has no IP address"
    ]


async def test_a_handler_that_breaks_does_not_end_the_probing() -> None:
    def script(_kind: str, number: int) -> Run:
        if number == 0:
            raise ZeroDivisionError("bug")
        return OK

    world = World(script)
    async with probing(world.prober(container(readiness=exec_probe("readiness")))):
        await until(1.5)
    assert world.verdicts("readiness") == [(1, S)]
    assert world.events[0].message == "Readiness probe errored and resulted in unknown state: bug"


# ---- events -----------------------------------------------------------------------------
async def test_every_failed_run_is_told_also_below_the_threshold() -> None:
    world = World(every(BAD))
    async with probing(world.prober(container(readiness=exec_probe("readiness", failures=3)))):
        await until(4.5)
    event = Event(type="Warning", reason="Unhealthy", message="Readiness probe failed: out", container="a")
    assert world.events == [event] * 5
    assert world.results == [("readiness", 2, F)]


async def test_runs_are_counted_for_the_metrics() -> None:
    world = World(lambda _kind, number: (BAD, OK, NO_EXEC, NO_EXEC, NO_EXEC)[number])
    prober = world.prober(container(readiness=exec_probe("readiness")))
    async with probing(prober):
        await until(2.5)
    assert prober._clients.totals == {("readiness", "failed"): 1, ("readiness", "successful"): 1}


async def test_probe_commands_see_the_containers_raw_environment() -> None:
    world = World(every(OK))
    probed = container(readiness=exec_probe("$(FOO) $(NO) $$(FOO)", period=10))
    env = (EnvVar(name="BAR", value="b"), EnvVar(name="FOO", value="$(BAR)"))
    async with probing(world.prober(msgspec.structs.replace(probed, env=env))):
        await until(1)
    assert world.runs == [("$(BAR) $(NO) $(FOO)", 0)]


# ---- termination ------------------------------------------------------------------------
async def test_when_termination_begins_only_readiness_goes_on() -> None:
    world = World(every(OK))
    prober = world.prober(container(liveness=exec_probe("liveness"), readiness=exec_probe("readiness")))
    async with probing(prober):
        await until(2.5)
        prober.stop_restarting()
        prober.stop_restarting()
        await until(5.5)
    assert world.seconds("liveness") == [0, 1, 2]
    assert world.seconds("readiness") == [0, 1, 2, 3, 4, 5]


async def test_a_liveness_run_in_flight_is_abandoned_when_termination_begins() -> None:
    world = World(every((5, 1)))
    prober = world.prober(container(liveness=exec_probe("liveness", timeout=10)))
    async with probing(prober):
        await until(2)
        prober.stop_restarting()
        await until(20)
    assert world.ended_calls == [("liveness", 2)]
    assert world.results == []


async def test_termination_before_the_first_run_leaves_liveness_out() -> None:
    world = World(every(OK))
    prober = world.prober(container(liveness=exec_probe("liveness"), readiness=exec_probe("readiness")))
    prober.stop_restarting()
    async with probing(prober):
        await until(0.5)
    assert world.runs == [("readiness", 0)]


async def test_the_end_of_the_container_ends_everything() -> None:
    world = World(every((5, 0)))
    async with probing(world.prober(container(readiness=exec_probe("readiness", timeout=10)))):
        await until(2)
    await until(30)
    assert world.runs == [("readiness", 0)]
    assert world.ended_calls == [("readiness", 2)]


# ---- a restart of the daemon ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("seeds", "runs"),
    [
        pytest.param(ProbeResults(), ["startup"], id="nothing known: startup again"),
        pytest.param(ProbeResults(startup=S), ["liveness", "readiness"], id="started stays started"),
        pytest.param(ProbeResults(startup=F), [], id="a startup failure stays one: the kill is still to come"),
        pytest.param(ProbeResults(startup=S, liveness=F), ["readiness"], id="a liveness failure stays one"),
        pytest.param(ProbeResults(startup=S, liveness=S, readiness=S), ["liveness", "readiness"], id="healthy"),
    ],
)
async def test_what_was_known_before_a_restart_of_the_daemon_holds(seeds: ProbeResults, runs: list[str]) -> None:
    world = World(lambda kind, _number: BAD if kind == "startup" else OK)
    probes = {kind: exec_probe(kind, period=10, failures=3) for kind in ("startup", "liveness", "readiness")}
    async with probing(world.prober(container(**probes), started=-100, seeds=seeds)):
        await until(5)
    assert sorted(kind for kind, _ in world.runs) == runs


async def test_ready_stays_until_the_next_verdict() -> None:
    world = World(every(BAD))
    probed = container(readiness=exec_probe("readiness", period=10, failures=2))
    async with probing(world.prober(probed, started=-95, seeds=ProbeResults(readiness=S))):
        await until(20)
    assert world.seconds("readiness") == [5, 15], "in the rhythm it had, not all at once after a restart"
    assert world.results == [("readiness", 15, F)]


async def test_an_unchanged_result_is_not_told_again() -> None:
    world = World(every(OK))
    probed = container(readiness=exec_probe("readiness"), liveness=exec_probe("liveness"))
    async with probing(world.prober(probed, started=-100, seeds=ProbeResults(readiness=S))):
        await until(10)
    assert world.results == [("liveness", 0, S)]
