"""The tasks in which a worker's actions are carried out: what runs, what may be abandoned, what is tried again when.

`worker.py` hands over what was decided, and each observation, for what starts that were cut short have left in it.
Single actions are carried out by `executor.py`; what comes of them goes into the worker's memory, and wakes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Protocol

import structlog

from minikubelet.api.pod import Pod
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Action, CreateSandbox, RemoveContainer, RunPostStart, StartContainer
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.pods.executor import Executor, Note
from minikubelet.pods.refusals import refusal_event
from minikubelet.pods.services import Services
from minikubelet.pods.starter import half_made
from minikubelet.pods.tasks import Abandoned, Handle
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError

log = structlog.get_logger(__name__)

_ABANDONABLE = CreateSandbox | StartContainer | RunPostStart
#: Seconds between tries of an action that the runtime refuses, doubling.
_RETRY_FIRST, _RETRY_MAX = 0.5, 10.0


class Worker(Protocol):
    """What is needed of `worker.PodWorker`."""

    pod: Pod
    memory: Memory

    def wake(self) -> None: ...
    def refused(self) -> None: ...
    def save(self) -> None: ...


class Acting:
    """One for each worker."""

    def __init__(self, worker: Worker, services: Services) -> None:
        self._worker = worker
        self._services = services
        self._executor = Executor(services)
        self._handles: dict[str, Handle] = {}
        self._discards: dict[str, asyncio.Task[None]] = {}
        self._retries: dict[str, float] = {}
        metadata = worker.pod.metadata
        self._log = log.bind(pod=f"{metadata.namespace}/{metadata.name}", uid=metadata.uid)

    def start(self, tasks: asyncio.TaskGroup, action: Action) -> None:
        handle = Handle(hindered=self._hindered)
        if isinstance(action, _ABANDONABLE):
            self._handles[action.key] = handle
        name = f"{self._worker.pod.metadata.name} {action.key}"
        handle.bind(tasks.create_task(self._carry_out(action, handle), name=name))

    def abandon(self) -> None:
        """The pod is to be stopped: what only served its start is of no more use."""
        for handle in self._handles.values():
            handle.abandon()

    def stop(self) -> None:
        """The worker ends."""
        for discard in self._discards.values():
            discard.cancel()

    @property
    def removal_refused(self) -> bool:
        """The runtime has refused for a while to remove something."""
        return any(key.startswith("remove") and delay == _RETRY_MAX for key, delay in self._retries.items())

    async def _carry_out(self, action: Action, handle: Handle) -> None:
        worker = self._worker
        note: Note | None = None
        try:
            note = await self._executor.carry_out(action, pod=worker.pod, handle=handle)
            self._retries.pop(action.key, None)
        except Abandoned:
            self._log.info("abandoned, the pod is being stopped", action=action.key)
        except RuntimeUnavailableError:
            await self._look_again()
        except (ContainerRuntimeError, OSError) as error:
            await asyncio.sleep(self._refused(action, error))
        finally:
            self._handles.pop(action.key, None)
            memory = worker.memory if note is None else note(worker.memory)
            worker.memory = notes.action_finished(memory, action.key)
            worker.wake()

    def _refused(self, action: Action, error: Exception) -> float:
        """The runtime does not do it. Says so, once it has for a while; the seconds until the next try."""
        before = self._retries.get(action.key, _RETRY_FIRST / 2)
        delay = self._retries[action.key] = min(before * 2, _RETRY_MAX)
        self._log.warning("the runtime refused; tried again later", action=action.key, error=str(error), seconds=delay)
        if delay == _RETRY_MAX > before:
            event = refusal_event(action, error, half_made=self._worker.memory.half_made)
            if event is not None:
                self._services.recorder.event(self._worker.pod, event)
        self._worker.refused()
        return delay

    async def _look_again(self) -> None:
        """A call's answer was lost: what became of it is only known when the runtime is back and was asked."""
        while True:
            await self._services.state.lost()
            try:
                await self._services.state.relist(self._worker.pod.metadata.uid)
            except ContainerRuntimeError as error:
                self._log.info("containerd does not answer yet", error=str(error))
            else:
                return

    def _hindered(self, why: str) -> None:
        self._worker.memory = notes.sandbox_hindered(self._worker.memory, why)
        self._worker.wake()

    # ---- what cut starts have left ---------------------------------------------------
    def discard(self, tasks: asyncio.TaskGroup, observed: Observed) -> list[ObservedContainer]:
        """Have what starts that were cut short have left removed; returns what of it is there, which no decision is to
        see. While the runtime refuses, others go on without it.
        """
        cut = half_made(observed, self._worker.memory)
        left = [it for it in observed.containers if it.id in cut or _removal(it).key in self._discards]
        for record in left:
            key = _removal(record).key
            if key not in self._discards:
                name = f"{self._worker.pod.metadata.name} discard {record.name}"
                self._discards[key] = tasks.create_task(self._discard(record), name=name)
        return left

    def tried_to_discard(self, left: Iterable[ObservedContainer]) -> bool:
        """Whether the runtime has refused to remove each of these; until then it is worth waiting."""
        return all(_removal(record).key in self._retries for record in left)

    async def _discard(self, record: ObservedContainer) -> None:
        action = _removal(record)
        try:
            if not await self._came_through(record):
                await self._carry_out(action, Handle())
        finally:
            del self._discards[action.key]
            self._worker.wake()

    async def _came_through(self, record: ObservedContainer) -> bool:
        """Whether a start that nobody waits for any more was done all the same: then the container is as any other.

        If not, it is written down that it never ran. So a daemon that dies while it is removed, which kills what has
        come to run meanwhile, leaves nothing that the next one takes for the container's own end.
        """
        worker, state, key = self._worker, self._services.state, _removal(record).key
        uid = worker.pod.metadata.uid
        if record.id not in worker.memory.half_made or key in self._retries:  # else a removal may be under way
            with contextlib.suppress(ContainerRuntimeError):
                await state.refresh(record.id)
            now = {it.id: it.state for it in state.observed(uid).containers}
            if now.get(record.id) is RecordState.RUNNING:
                self._retries.pop(key, None)
                worker.memory = notes.came_through(worker.memory, record.id)
                return True
        worker.memory = notes.half_made(worker.memory, record.id, observed=state.observed(uid))
        worker.save()
        await self._services.store.settled()
        return False


def _removal(record: ObservedContainer) -> RemoveContainer:
    return RemoveContainer(name=record.name, container_id=record.id, logs=False)
