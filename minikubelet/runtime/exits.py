"""How an exit becomes a record: at once from containerd's event, completed by what the container and CRI say later.

`state.RuntimeState` hands over each exit event, and each exit that a list shows. CRI itself knows of an exit only 30 to
150 ms after the event (CD 7), and may not know its code at all if it was down at that moment (CD 11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import msgspec

from minikubelet.lifecycle.records import RecordState
from minikubelet.runtime import records, termination
from minikubelet.runtime.book import Book, Entry, lost_exit
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.runtime.events import Exited
from minikubelet.runtime.pb import cri_pb2

#: Seconds between questions whether CRI has caught up with an event, and how long it is asked.
_STEP, _PATIENCE = 0.05, 3.0
#: Seconds for which an exit with an unknown code is held back: the shim sends the true one again after a restart of
#: containerd. And the age in seconds up to which an exit can still be such a one.
HOLD, _OLDEST_TO_HOLD = 5.0, 30.0

Spawn = Callable[[Coroutine[None, None, None], str], None]


class Exits:
    """Enters exits into the book; `changed(uid)` is called for each change, `spawn(coroutine, name)` starts a task."""

    def __init__(
        self,
        book: Book,
        cri: CRIClient,
        *,
        clock: Callable[[], float],
        changed: Callable[[str], None],
        spawn: Spawn,
    ) -> None:
        self._book = book
        self._cri = cri
        self._clock = clock
        self._changed = changed
        self._spawn = spawn
        self._out_of_memory: set[str] = set()
        self._held: set[str] = set()

    def out_of_memory(self, container_id: str) -> None:
        """Its exit, whenever it comes, will be OOMKilled."""
        self._out_of_memory.add(container_id)

    def forget(self, container_id: str) -> None:
        self._out_of_memory.discard(container_id)
        self._held.discard(container_id)

    async def by_event(self, event: Exited, *, started_at: float) -> None:
        """Publish the exit from the event alone, then let CRI's own account complete it.

        `started_at` is for a container whose start call has not returned yet.
        """
        entry = self._book.container(event.id)
        if entry is None or (entry.record.state is RecordState.EXITED and not lost_exit(entry.record)):
            return
        text = await self._message(entry, exit_code=event.exit_code)
        reason = "OOMKilled" if event.id in self._out_of_memory else "Error" if event.exit_code else "Completed"
        entry = self._book.container(event.id)
        if entry is None:
            return
        record = msgspec.structs.replace(
            entry.record,
            state=RecordState.EXITED,
            exit_code=event.exit_code,
            reason=reason,
            message=text,
            started_at=entry.record.started_at or started_at,
            finished_at=max(event.at, 0.0),  # Go's zero time lies in the year 1
        )
        self._put(msgspec.structs.replace(entry, record=record))
        if caught_up := await self._caught_up(event.id):
            self._put(records.container_entry(caught_up, sandbox_id=record.sandbox_id))

    async def by_status(self, entry: Entry) -> None:
        """Enter an exit that CRI told of: one that was missed, or that was before our time."""
        if lost_exit(entry.record) and self._hold(entry):
            return
        await self._enter(entry)

    async def _enter(self, entry: Entry) -> None:
        text = await self._message(entry, exit_code=entry.record.exit_code)
        record = msgspec.structs.replace(entry.record, message=termination.joined(entry.record.message, text))
        self._put(msgspec.structs.replace(entry, record=record))

    async def _message(self, entry: Entry, *, exit_code: int) -> str:
        """The termination message. The log is read only when CRI knows of the exit, for then it is complete (TM-2)."""
        facts = entry.facts
        text = await asyncio.to_thread(termination.read_message, facts.message_path) if facts.message_path else ""
        if text or not exit_code or not facts.fall_back_to_logs:
            return text
        if entry.record.state is not RecordState.EXITED:
            await self._caught_up(entry.record.id)
        return await asyncio.to_thread(termination.read_log, facts.log_path)

    async def _caught_up(self, container_id: str) -> cri_pb2.ContainerStatus | None:
        """Ask until CRI has the exit as well; None if it never does, e.g. because the container is gone."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    await asyncio.sleep(_STEP)
                    status = await self._cri.container_status(container_id)
                    if status.state == cri_pb2.CONTAINER_EXITED:
                        return status
        except (TimeoutError, ContainerRuntimeError):
            return None

    def _hold(self, entry: Entry) -> bool:
        """Show an exit with a lost code as running until the true one has come or cannot come any more.

        False: it is too old for that.
        """
        container_id = entry.record.id
        if container_id in self._held:
            return True
        if self._clock() - entry.record.finished_at > _OLDEST_TO_HOLD:
            return False
        self._held.add(container_id)
        running = msgspec.structs.replace(
            entry.record, state=RecordState.RUNNING, exit_code=0, reason="", finished_at=0.0
        )
        self._put(msgspec.structs.replace(entry, record=running))
        self._spawn(self._release(entry), f"hold the exit of {container_id}")
        return True

    async def _release(self, entry: Entry) -> None:
        await asyncio.sleep(HOLD)
        self._held.discard(entry.record.id)
        if self._book.container(entry.record.id) is not None:
            await self._enter(entry)

    def _put(self, entry: Entry) -> None:
        self._changed(self._book.put(entry))
