"""What the runtime has of our pods, known at every moment without asking: `observed(uid)`.

Fed by containerd's events (an exit is known within milliseconds), by what the daemon itself has just done (`note_*`),
and by a look through everything at start, after each reconnect and once a minute. Workers subscribe and are woken at
each change; the manager asks `uids` and `carried` for pods that nobody else knows. Only what is ours is seen (D-7).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import grpc.aio
import msgspec
import structlog

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.runtime import events, records
from minikubelet.runtime.book import Book
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import ContainerRuntimeError, NotFoundError, RuntimeUnavailableError
from minikubelet.runtime.exits import Exits
from minikubelet.runtime.pb import cri_pb2
from minikubelet.runtime.relist import Relist, first_error

log = structlog.get_logger(__name__)

#: Seconds between looks through everything, and from a (re)connect to the second one: what ended in the moment of the
#: subscription itself may be in neither the events nor the first look.
RELIST_PERIOD = 60.0
_SECOND_LOOK = 1.5
#: Seconds between tries to reach a runtime that is away.
_RECONNECT = 0.1


class RuntimeState:
    """Nothing comes in but while `run` runs. Callbacks are called at once, on the event loop."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        owner: str,
        clock: Callable[[], float] = time.time,
        relist_period: float = RELIST_PERIOD,
    ) -> None:
        """`owner`: the mark (the daemon's root folder) of the objects that are ours. `clock`: unix seconds."""
        self._channel = channel
        self._cri = CRIClient(channel)
        self._clock = clock
        self._relist_period = relist_period
        self._book = Book()
        self._looking = Relist(
            self._cri, self._book, owner=owner, gone=self.note_removed, sandbox=self.note_sandbox, container=self._take
        )
        self._exits = Exits(self._book, self._cri, clock=clock, changed=self._changed, spawn=self._spawn)
        #: When the process of a container whose start call has not returned yet began to run.
        self._started: dict[str, float] = {}
        self._subscribers: list[Callable[[str], None]] = []
        self._connected = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._session: asyncio.Task[str] | None = None
        self._told_away = False

    # ---- reading --------------------------------------------------------------------
    def observed(self, uid: str) -> Observed:
        """Everything the runtime has of the pod; while it is away, what it last had."""
        return self._book.observed(uid)

    def uids(self) -> list[str]:
        """Of every pod of which the runtime has something of ours."""
        return self._book.uids()

    def running_logs(self) -> dict[str, Path]:
        """The log file of each running container, by the container's id."""
        running = (it for it in self._book.containers() if it.record.state is RecordState.RUNNING)
        return {it.record.id: Path(it.facts.log_path) for it in running if it.facts.log_path}

    def message_files(self, uid: str) -> frozenset[str]:
        """The files on the host for the last words of the pod's containers."""
        return frozenset(it.facts.message_path for it in self._book.containers() if it.uid == uid)

    def has_container(self, container_id: str) -> bool:
        return self._book.container(container_id) is not None

    def carried(self, uid: str) -> Pod | None:
        """The pod as its newest sandbox carries it; None if it has none, or this version cannot read it."""
        newest = self._book.newest_sandbox(uid)
        if newest is None:
            return None
        try:
            return msgspec.json.decode(newest.carried, type=Pod)
        except msgspec.MsgspecError as error:
            log.warning("the pod that a sandbox carries cannot be read", uid=uid, error=str(error))
            return None

    def subscribe(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback(uid)` at each change of a pod. Returns what ends it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    @property
    def connected(self) -> bool:
        return self._connected.is_set()

    async def wait_connected(self) -> None:
        """Until the runtime answers and everything in it has been looked through."""
        await self._connected.wait()

    async def lost(self) -> None:
        """A call found the runtime away: return when it is back and has been looked through anew."""
        if self.connected:
            await asyncio.sleep(_RECONNECT)  # never a hot loop, even if it was only that one call
            try:
                await self._cri.status()
            except ContainerRuntimeError:
                self._connected.clear()
                if self._session is not None:
                    self._session.cancel()
        await self.wait_connected()

    # ---- notes of what the daemon has just done itself --------------------------------
    def note_sandbox(self, status: cri_pb2.PodSandboxStatus) -> None:
        self._changed(self._book.put_sandbox(records.sandbox_entry(status)))

    def note_sandbox_stopped(self, sandbox_id: str) -> None:
        if known := self._book.sandbox(sandbox_id):
            record = msgspec.structs.replace(known.record, ready=False, ips=())
            self._changed(self._book.put_sandbox(msgspec.structs.replace(known, record=record)))

    def note_created(
        self, container_id: str, *, sandbox_id: str, config: cri_pb2.ContainerConfig, log_directory: str
    ) -> None:
        entry = records.created_entry(
            container_id, sandbox_id=sandbox_id, config=config, log_directory=log_directory, now=self._clock()
        )
        self._changed(self._book.put(entry))

    def note_started(self, container_id: str) -> None:
        """StartContainer has returned. Nothing changes if more than that is known already."""
        started_at = self._started.pop(container_id, None) or self._clock()
        entry = self._book.container(container_id)
        if entry is not None and entry.record.state is RecordState.CREATED:
            record = msgspec.structs.replace(entry.record, state=RecordState.RUNNING, started_at=started_at)
            self._changed(self._book.put(msgspec.structs.replace(entry, record=record)))

    def note_removed(self, object_id: str) -> None:
        """A container, or a sandbox with all that was in it, is gone."""
        self._exits.forget(object_id)
        self._started.pop(object_id, None)
        self._changed(self._book.drop(object_id))

    # ---- asking ---------------------------------------------------------------------
    async def refresh(self, container_id: str) -> None:
        """Ask for one container, e.g. after its start failed, which no event tells. Raises ContainerRuntimeError."""
        if entry := self._book.container(container_id):
            try:
                status = await self._cri.container_status(container_id)
            except NotFoundError:
                self.note_removed(container_id)
            else:
                await self._take(status, sandbox_id=entry.record.sandbox_id)

    async def relist(self, uid: str | None = None) -> None:
        """Look through everything, or through one pod. Raises ContainerRuntimeError."""
        await self._looking.look(uid)

    async def _take(self, status: cri_pb2.ContainerStatus, *, sandbox_id: str) -> None:
        entry = records.container_entry(status, sandbox_id=sandbox_id)
        known = self._book.container(status.id)
        was_exited = known is not None and known.record.state is RecordState.EXITED
        if entry.record.state is RecordState.EXITED and not was_exited:
            await self._exits.by_status(entry)
        else:
            self._changed(self._book.put(entry))

    # ---- keeping in touch -----------------------------------------------------------
    async def run(self) -> None:
        """Follow the runtime through all its absences, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._session = self._tasks.create_task(self._follow(), name="follow containerd")
                await asyncio.wait([self._session])
                self._away("it does not answer" if self._session.cancelled() else self._session.result())
                await asyncio.sleep(_RECONNECT)

    def _away(self, reason: str) -> None:
        self._connected.clear()
        if not self._told_away:
            self._told_away = True
            log.warning("containerd is away: pods run on, but nothing can be changed until it is back", error=reason)

    async def _follow(self) -> str:
        """One connection, from subscription to loss; returns what ended it."""
        queue: asyncio.Queue[events.TaskEvent] = asyncio.Queue()
        reason = ""
        try:
            async with asyncio.TaskGroup() as session:
                session.create_task(self._receive(queue), name="receive containerd events")
                while True:
                    try:
                        await self.relist()
                        break
                    except RuntimeUnavailableError as error:
                        # Down, or still loading CRI. The subscription stays, so as to be there before anything happens.
                        self._away(str(error))
                        await asyncio.sleep(_RECONNECT)
                self._connected.set()
                self._told_away = False
                log.info("connected to containerd", pods=len(self._book.uids()))
                session.create_task(self._relist_again_and_again(), name="look through containerd")
                while True:
                    self._apply(await queue.get())
        except* grpc.aio.AioRpcError as group:
            reason = _text(first_error(group))
        except* ContainerRuntimeError as group:
            reason = reason or _text(first_error(group))
        return reason

    async def _receive(self, queue: asyncio.Queue[events.TaskEvent]) -> None:
        async for event in events.subscribe(self._channel):
            queue.put_nowait(event)
        raise RuntimeUnavailableError("containerd ended the event stream")

    async def _relist_again_and_again(self) -> None:
        await asyncio.sleep(_SECOND_LOOK)
        while True:
            await self.relist()
            await asyncio.sleep(self._relist_period)

    def _apply(self, event: events.TaskEvent) -> None:
        is_container = self._book.container(event.id) is not None
        match event:
            case events.Exited() if is_container:
                started_at = self._started.pop(event.id, event.at)
                self._spawn(self._exits.by_event(event, started_at=started_at), f"exit of {event.id}")
            case events.Exited():
                self.note_sandbox_stopped(event.id)
            case events.Started() if is_container:
                # Not shown as running yet: until the start call returns, CRI refuses to exec in it.
                self._started[event.id] = event.at
            case events.OutOfMemory() if is_container:
                self._exits.out_of_memory(event.id)

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Exits are followed up in tasks of their own, which outlive the connection."""
        assert self._tasks is not None, "exits come in while `run` runs"  # noqa: S101
        self._tasks.create_task(work, name=name)

    def _changed(self, uid: str) -> None:
        if uid:
            for callback in tuple(self._subscribers):
                callback(uid)


def _text(error: BaseException) -> str:
    return (error.details() if isinstance(error, grpc.aio.AioRpcError) else None) or str(error)
