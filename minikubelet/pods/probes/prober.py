"""When the probes of one running container are run, and what becomes of their outcomes.

`pods/probing.py` starts one `ContainerProber` for each running container id and cancels it when that has ended.
All that is counted or decided here belongs to that id (PH 4, with the project's own rules: no jitter, the first run as
soon as the container runs and its initial delay is over, then every period from there, at most one run at a time).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from minikubelet.api.pod import Container, Pod, Probe
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import ProbeResult, ProbeResults
from minikubelet.lifecycle.notes import ProbeKind
from minikubelet.pods.probes.handlers.base import Attempt, Outcome, Target, error
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.runner import event_of, run_probe
from minikubelet.pods.probes.thresholds import Counter

log = structlog.get_logger(__name__)

#: Seconds after its timeout by which the runtime, if it is well, has killed a command; and until it is asked again.
_SURELY_KILLED, _ASK_AGAIN = 5.0, 5.0

STARTUP: Final = "startup"
LIVENESS: Final = "liveness"
READINESS: Final = "readiness"

#: Called with (container id, kind, result) whenever a result changes; kind is a field name of ProbeResults.
OnResult = Callable[[str, ProbeKind, ProbeResult], None]


class Recorder(Protocol):
    def event(self, pod: Pod, event: Event) -> None: ...


class ContainerProber:
    """The probes of one container id."""

    def __init__(
        self,
        pod: Pod,
        container: Container,
        *,
        container_id: str,
        started_at: float,
        address: Callable[[], str],
        seeds: ProbeResults,
        on_result: OnResult,
        clients: Clients,
        recorder: Recorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`started_at` and `clock` in unix seconds; `address` gives the pod's first IP (hostNetwork: the node's) or "".

        `seeds` are results that this container id already has, from before a restart of the daemon: they stand until
        the next verdict, so nothing flaps (PH 9), and their probes go on in the rhythm they had.
        """
        self._pod = pod
        self._container = container
        self._id = container_id
        self._started_at = started_at
        self._address = address
        self._on_result = on_result
        self._clients = clients
        self._recorder = recorder
        self._clock = clock
        self._seeds = seeds
        self._started = asyncio.Event()
        if container.startup_probe is None or seeds.startup is ProbeResult.SUCCESS:
            self._started.set()
        self._ended: set[ProbeKind] = set()
        self._tasks: dict[ProbeKind, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Probe until cancelled, or until no probe is left that could change anything."""
        probes: dict[ProbeKind, Probe | None] = {
            STARTUP: None if self._started.is_set() else self._container.startup_probe,
            LIVENESS: self._container.liveness_probe,
            READINESS: self._container.readiness_probe,
        }
        async with asyncio.TaskGroup() as tasks:
            for kind, probe in probes.items():
                if (
                    probe is not None
                    and kind not in self._ended
                    and not self._on_hold(kind, getattr(self._seeds, kind))
                ):
                    name = f"{self._pod.metadata.name} {self._container.name} {kind} probe"
                    self._tasks[kind] = tasks.create_task(
                        self._probe(kind, probe, _Calls(tasks, probe, self._clients, name=f"{name} exec")), name=name
                    )

    def stop_restarting(self) -> None:
        """End the startup and liveness probes, a run in flight included; readiness goes on (PH 8)."""
        for kind in (STARTUP, LIVENESS):
            self._ended.add(kind)
            if task := self._tasks.pop(kind, None):
                task.cancel()

    @staticmethod
    def _on_hold(kind: ProbeKind, result: ProbeResult | None) -> bool:
        """A failed liveness probe and any verdict on startup end their probe for this container id (PH 4.4)."""
        if kind == STARTUP:
            return result in (ProbeResult.SUCCESS, ProbeResult.FAILURE)
        return kind == LIVENESS and result is ProbeResult.FAILURE

    async def _probe(self, kind: ProbeKind, probe: Probe, calls: _Calls) -> None:
        if kind != STARTUP:
            await self._started.wait()
        loop = asyncio.get_running_loop()
        counter = Counter.of(probe)
        result: ProbeResult | None = getattr(self._seeds, kind)
        tick = self._first_tick(probe, resumed=result is not None)
        try:
            while True:
                await asyncio.sleep(tick - loop.time())
                await calls.room()
                tick = last_due(tick, period=probe.period_seconds, now=loop.time())
                attempt = await self._run(kind, probe, calls)
                if attempt.outcome is not Outcome.ERROR:
                    counter = counter.add(
                        ProbeResult.FAILURE if attempt.outcome is Outcome.FAILURE else ProbeResult.SUCCESS
                    )
                    if counter.verdict not in (None, result):
                        result = counter.verdict
                        self._tell(kind, result)
                    if self._on_hold(kind, result):
                        return
                tick += probe.period_seconds
        finally:
            calls.cancel()

    def _first_tick(self, probe: Probe, *, resumed: bool) -> float:
        """On the loop's clock. The initial delay counts from the true start, to the fraction of a second."""
        now = asyncio.get_running_loop().time()
        due = now - max(self._clock() - self._started_at, 0.0) + probe.initial_delay_seconds
        if resumed and due < now:
            return due + math.ceil((now - due) / probe.period_seconds) * probe.period_seconds
        return max(due, now)

    def _tell(self, kind: ProbeKind, result: ProbeResult) -> None:
        if kind == STARTUP and result is ProbeResult.SUCCESS:
            self._started.set()
        self._on_result(self._id, kind, result)

    async def _run(self, kind: ProbeKind, probe: Probe, calls: _Calls) -> Attempt:
        target = Target(container=self._container, container_id=self._id, address=self._address())
        try:
            attempt = await run_probe(probe, target, clients=self._clients, spawn=calls.spawn)
        except Exception as problem:
            log.exception(
                "a probe could not be run", pod=self._pod.metadata.name, container=self._container.name, probe=kind
            )
            attempt = error(str(problem) or type(problem).__name__)
        if attempt.outcome is not Outcome.ERROR:
            self._clients.totals[kind, "failed" if attempt.outcome is Outcome.FAILURE else "successful"] += 1
        if event := event_of(kind, attempt, container=self._container.name):
            self._recorder.event(self._pod, event)
        return attempt


def last_due(tick: float, *, period: float, now: float) -> float:
    """`tick`, or the last one after it that is due. Of several that a long run has missed only that counts (PH 4.2)."""
    return tick + max((now - tick) // period, 0) * period


class _Calls:
    """The exec calls of one probe. One can outlive its run by far: the runtime kills the command when its time is up,
    but answers only when all that the command has left behind has closed its output.
    """

    def __init__(self, tasks: asyncio.TaskGroup, probe: Probe, clients: Clients, *, name: str) -> None:
        self._tasks = tasks
        self._name = name
        self._clients = clients
        #: So many may hang; by then the verdict is failure, and more could not change it.
        self._most = probe.failure_threshold
        self._killed_after = probe.timeout_seconds + _SURELY_KILLED
        self._began = 0.0
        self._calls: set[asyncio.Task[Any]] = set()

    def spawn(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._tasks.create_task(call, name=self._name)
        self._began = asyncio.get_running_loop().time()
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    async def room(self) -> None:
        """Until another run may begin: when the command of the last one is gone.

        That is when the call has ended, or does not end although the command's time has long been up and the runtime
        is well: then what holds it is something that the command has left behind.
        """
        while self._calls:
            left = self._began + self._killed_after - asyncio.get_running_loop().time()
            if left <= 0 and len(self._calls) < self._most and await self._clients.runtime_answers():
                return
            await asyncio.wait(
                self._calls, timeout=left if left > 0 else _ASK_AGAIN, return_when=asyncio.FIRST_COMPLETED
            )

    def cancel(self) -> None:
        for call in self._calls:
            call.cancel()
