"""The book of what the runtime has of our pods: records by pod, found again by id, never moving backwards.

`state.RuntimeState` writes it from events, lists and its own notes, which may arrive in any order; the rules by which
they are reconciled are here, without I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from minikubelet.lifecycle.records import Observed, ObservedContainer, ObservedSandbox, RecordState

_RANK = {RecordState.UNKNOWN: -1, RecordState.CREATED: 0, RecordState.RUNNING: 1, RecordState.EXITED: 2}
#: What containerd says of an exit that it missed (CD 3, 11).
LOST_EXIT_CODE, LOST_EXIT_REASON = 255, "Unknown"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be known of a container beside its record, so that nothing has to be asked when it exits."""

    #: The termination file on the host; "" if it has none.
    message_path: str = ""
    fall_back_to_logs: bool = False
    log_path: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    record: ObservedContainer
    facts: Facts


class SandboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    record: ObservedSandbox
    #: The pod as JSON, from the sandbox's annotation.
    carried: str = ""


def lost_exit(record: ObservedContainer) -> bool:
    """Whether the record is an exit of which the runtime does not know the code."""
    return (
        record.state is RecordState.EXITED and record.exit_code == LOST_EXIT_CODE and record.reason == LOST_EXIT_REASON
    )


def merged(old: ObservedContainer, new: ObservedContainer) -> ObservedContainer:
    """The truer of two records of one container: a state never goes back, and a true exit code is never lost."""
    if _RANK[new.state] < _RANK[old.state] or (old.state is RecordState.EXITED and lost_exit(new)):
        return old
    return msgspec.structs.replace(new, message=new.message or old.message, started_at=new.started_at or old.started_at)


class Book:
    """Containers and sandboxes by id. `put*` and `drop` return the uid of the pod if anything changed, else ""."""

    def __init__(self) -> None:
        self._containers: dict[str, Entry] = {}
        self._sandboxes: dict[str, SandboxEntry] = {}
        self._by_uid: dict[str, set[str]] = {}
        self._observed: dict[str, Observed] = {}
        #: Counts up with each entry and removal, so that a list that began before them does not undo them.
        self.now = 0
        self._entered: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    def uids(self) -> list[str]:
        return list(self._by_uid)

    def observed(self, uid: str) -> Observed:
        if uid not in self._observed:
            ids = self._by_uid.get(uid, set())
            sandboxes = [self._sandboxes[i].record for i in ids if i in self._sandboxes]
            containers = [self._containers[i].record for i in ids if i in self._containers]
            self._observed[uid] = Observed(
                # By their counts first: the clock may have been set back between two of them.
                sandboxes=tuple(sorted(sandboxes, key=lambda s: (s.attempt, s.created_at), reverse=True)),
                containers=tuple(sorted(containers, key=lambda c: (c.restart_count, c.created_at), reverse=True)),
            )
        return self._observed[uid]

    def containers(self) -> Iterable[Entry]:
        return self._containers.values()

    def container(self, container_id: str) -> Entry | None:
        return self._containers.get(container_id)

    def sandbox(self, sandbox_id: str) -> SandboxEntry | None:
        return self._sandboxes.get(sandbox_id)

    def newest_sandbox(self, uid: str) -> SandboxEntry | None:
        newest = self.observed(uid).sandboxes
        return self._sandboxes[newest[0].id] if newest else None

    def put(self, entry: Entry) -> str:
        """Enter a container, or what is newly known of it."""
        known = self._containers.get(entry.record.id)
        if known is not None:
            entry = msgspec.structs.replace(entry, record=merged(known.record, entry.record))
        if entry == known:
            return ""
        self._containers[entry.record.id] = entry
        return self._enter(entry.uid, entry.record.id)

    def put_sandbox(self, entry: SandboxEntry) -> str:
        """Enter a sandbox, or what is newly known of it; one that was not ready never becomes so again."""
        known = self._sandboxes.get(entry.record.id)
        if known is not None and not known.record.ready and entry.record.ready:
            return ""
        if entry == known:
            return ""
        self._sandboxes[entry.record.id] = entry
        return self._enter(entry.uid, entry.record.id)

    def drop(self, object_id: str) -> str:
        """A container is gone, or a sandbox with all that was in it. Remembered also of what was not known yet."""
        self.now += 1
        self._dropped[object_id] = self.now
        if sandbox := self._sandboxes.pop(object_id, None):
            for other in tuple(self._by_uid[sandbox.uid]):
                entry = self._containers.get(other)
                if entry is not None and entry.record.sandbox_id == object_id:
                    del self._containers[other]
                    self._leave(entry.uid, other)
            return self._leave(sandbox.uid, object_id)
        if entry := self._containers.pop(object_id, None):
            return self._leave(entry.uid, object_id)
        return ""

    def dropped_since(self, object_id: str, then: int) -> bool:
        return self._dropped.get(object_id, -1) > then

    def missing(self, listed: Iterable[str], *, then: int, uid: str | None = None) -> list[str]:
        """Ids that a list which began at `then` should have had, but has not: they are gone."""
        present = set(listed)
        known = self._by_uid.get(uid, set()) if uid is not None else {*self._containers, *self._sandboxes}
        return [i for i in known if i not in present and self._entered[i] <= then]

    def forget_drops(self) -> None:
        """No list is under way that a removal could contradict."""
        self._dropped.clear()

    def _enter(self, uid: str, object_id: str) -> str:
        if object_id not in self._entered:
            self.now += 1
            self._entered[object_id] = self.now
        self._by_uid.setdefault(uid, set()).add(object_id)
        self._observed.pop(uid, None)
        return uid

    def _leave(self, uid: str, object_id: str) -> str:
        self.now += 1
        self._dropped[object_id] = self.now
        del self._entered[object_id]
        self._observed.pop(uid, None)
        ids = self._by_uid[uid]
        ids.discard(object_id)
        if not ids:
            del self._by_uid[uid]
        return uid
