"""A folder that is watched: events of the file system in, what became of each file out, at once and never half of it.

`sources.folder` watches the manifests with it, `sources.archives` the image archives. What a file is good for is
theirs; when it counts is settled here, the same way for both.

How a change is heard of. inotify watches the folder and every directory that its path and its symbolic links go
through (`sources.places`). Each event that can matter leads to a look at the folder at once (`sources.listing`),
which reads only files whose signature changed or that an event named. A look that finds directories not watched yet
is followed by another one when they are, so nothing falls between listing and watching. Every `check_frequency`
seconds there is a look without any event.

How half a file is kept out. A file is read only while nobody has it open for writing (`sources.reading`), so a
writer's CLOSE_WRITE or a rename into the folder is what makes new content count, and it counts at once. The kernel
announces CLOSE_WRITE a moment before it stops counting the writer; a refusal is therefore tried again after 1, 2, 4 …
64 ms, later only at the next event or look. Where there are no leases the events say who is writing, and a file
without any event must have been quiet for 0.25 s.

How editors are borne. Many save by moving the old file away and writing a new one; a file counts as removed only when
it has been gone for `REMOVAL_HOLD`, and gives way at once when another file defines its objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import structlog
from asyncinotify import Event, Inotify, Mask, Watch

from minikubelet.sources.listing import Hints, Look, Place, Read, ReadFile, look, shown
from minikubelet.sources.reading import BeingWrittenError, Signature, UnusableError
from minikubelet.sources.trouble import Trouble

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

#: Seconds that a file must be gone before its removal counts.
REMOVAL_HOLD = 0.02
#: Seconds between tries of a file that somebody seems to be writing: short at first, then only events count.
_FIRST_RETRY, _LAST_RETRY = 0.001, 0.064
#: Seconds of reading after which what was found is told before the rest is read. The first read is always complete.
_BUDGET = 0.01

_ENTRIES = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO
_CONTENT = Mask.MODIFY | Mask.CLOSE_WRITE | Mask.ATTRIB
_ITSELF = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR


class Follower(Protocol[T_contra]):
    def absorb(self, changes: Mapping[str, T_contra | UnusableError | Trouble | None]) -> None:
        """Take up what became of files, by name: their new content, why they cannot be used, a `Trouble`.

        None: a file is as it was before a trouble.
        """

    def settled(self, look: Look[Any], *, on_time: bool) -> None:
        """A look is complete and all of it absorbed. `on_time`: no event led to it."""


class FolderWatch(Generic[T]):
    """Watches the files of `path` whose names `takes`.

    `read` makes of a file what it is good for; it runs in a thread. `expected`: files that were there when the daemon
    ended, whose absence is news. `check_frequency`: seconds between looks that no event leads to.
    """

    def __init__(
        self,
        path: Path,
        *,
        takes: Callable[[str], bool],
        read: ReadFile[T],
        follower: Follower[T],
        expected: Iterable[str] = (),
        check_frequency: float = 20.0,
    ) -> None:
        self._path = path
        self._takes = takes
        self._read = read
        self._follower = follower
        self._check_frequency = check_frequency
        self._log = structlog.get_logger(__name__).bind(folder=str(path))
        #: What is there as far as is known; True: its last trouble is not over.
        self._files = dict.fromkeys(expected, False)
        self._unwatched: set[Path] = set()
        self._known: dict[str, Signature] = {}
        self._hints: dict[str, Hints] = {}
        #: Names that an event took out of the folder; they count as removed even when the folder itself is gone.
        self._taken: set[str] = set()
        self._vanished: dict[str, float] = {}
        self._retry = _FIRST_RETRY
        self._wake = asyncio.Event()
        self._watches: dict[Place, tuple[Watch, Mask]] = {}
        self._last: Look[T] = Look({}, frozenset(), frozenset(), None, {}, None)
        self._complete = False

    async def run(self) -> None:
        """Until cancelled. The first look is complete before it is told as settled."""
        try:
            inotify = Inotify()
        except OSError as error:
            self._log.warning(
                "changes in a folder are only seen by looking now and then",
                reason=error.strerror,
                seconds=self._check_frequency,
                remedy="raise the sysctl fs.inotify.max_user_instances",
            )
            await self._follow(None)
            return
        with inotify:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(inotify), name=f"events of {self._path.name}")
                tasks.create_task(self._follow(inotify), name=f"follow {self._path.name}")

    async def _listen(self, inotify: Inotify) -> None:
        async for event in inotify:
            if self._note(event):
                self._retry = _FIRST_RETRY
                self._wake.set()

    def _note(self, event: Event) -> bool:
        """Take from an event what a look cannot see. Returns whether a look is due."""
        places = [place for place, (watch, _) in self._watches.items() if watch is event.watch]
        if event.mask & Mask.Q_OVERFLOW:  # events were lost: forget what they said and read everything again
            self._hints.clear()
            self._known.clear()
        if event.mask & Mask.IGNORED:
            for place in places:
                del self._watches[place]
        if not places or event.name is None:
            return True
        name = shown(str(event.name))
        due = False
        for place in places:
            entries = self._last.places.get(place, {})
            at_home = place == self._last.home and self._takes(name)
            manifests = entries.get(name, frozenset()) | ({name} if at_home else frozenset())
            if not at_home and name not in entries:
                continue
            if event.mask & Mask.MODIFY:  # nothing to see before it is closed
                self._hints.update(dict.fromkeys(manifests, Hints(writing=True)))
                continue
            due = True
            if event.mask & (Mask.CLOSE_WRITE | Mask.MOVED_TO):
                self._hints.update(dict.fromkeys(manifests, Hints(whole=True)))
            if event.mask & (Mask.DELETE | Mask.MOVED_FROM) and at_home:
                self._hints.pop(name, None)
                self._taken.add(name)
        return due

    async def _follow(self, inotify: Inotify | None) -> None:
        on_time = False
        while True:
            self._wake.clear()
            wait = await self._look(inotify)
            self._complete = True
            self._follower.settled(self._last, on_time=on_time)
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
                on_time = False
            except TimeoutError:
                on_time = wait == self._check_frequency

    async def _look(self, inotify: Inotify | None) -> float:
        """Look until everything that matters is watched.

        Returns the seconds after which to look again without an event.
        """
        while True:
            hints, self._hints = self._hints, {}
            self._last = await asyncio.to_thread(
                look,
                self._path,
                takes=self._takes,
                read=self._read,
                known=dict(self._known),
                hints=hints,
                budget=_BUDGET if self._complete else math.inf,
            )
            changes, wait = self._changes(self._last, hints)
            self._absorb(changes)
            if inotify is None or not self._arm(inotify):
                return wait

    def _absorb(self, changes: dict[str, T | UnusableError | Trouble | None]) -> None:
        for name, outcome in changes.items():
            if outcome is Trouble.GONE:
                self._files.pop(name, None)
            else:
                self._files[name] = isinstance(outcome, Trouble)
        self._follower.absorb(changes)

    def _changes(
        self, result: Look[T], hints: dict[str, Hints]
    ) -> tuple[dict[str, T | UnusableError | Trouble | None], float]:
        """What became of each file, and the seconds after which to look again without an event."""
        now = asyncio.get_running_loop().time()
        waits = [self._check_frequency]
        changes: dict[str, T | UnusableError | Trouble | None] = {}
        for name, finding in result.findings.items():
            self._vanished.pop(name, None)
            self._taken.discard(name)
            match finding:
                case None:
                    if self._files[name]:
                        changes[name] = None
                case Read(signature, content):
                    self._known[name] = signature
                    changes[name] = content
                case UnusableError():
                    self._known.pop(name, None)
                    changes[name] = finding
                case BeingWrittenError(settles_in=settles_in):
                    self._known.pop(name, None)
                    changes[name] = Trouble.BEING_WRITTEN
                    if settles_in is not None:
                        waits.append(settles_in)
                    elif self._retry <= _LAST_RETRY:
                        waits.append(self._retry)
            if not isinstance(finding, (Read, UnusableError)) and name in hints:
                self._hints.setdefault(name, hints[name])  # not used up
        self._hints = {name: hints[name] for name in result.unread & hints.keys()} | self._hints
        if result.unread:
            waits.append(0.0)
        self._retry *= 2
        waits += self._removals(result, changes, now)
        return changes, min(waits)

    def _removals(
        self, result: Look[T], changes: dict[str, T | UnusableError | Trouble | None], now: float
    ) -> list[float]:
        """Add the files that are gone to `changes`. Returns the seconds for which others are held still."""
        waits = []
        for name in self._files.keys() - result.findings.keys() - result.unread:
            if result.trouble is not None and name not in self._taken:
                continue  # the folder is away as a whole: nobody removed this file
            since = self._vanished.setdefault(name, now)
            left = since + REMOVAL_HOLD - now
            if left > 0 and self._complete:
                changes[name] = Trouble.VANISHED
                waits.append(left)
            else:
                changes[name] = Trouble.GONE
                self._vanished.pop(name)
                self._taken.discard(name)
                self._known.pop(name, None)
                self._hints.pop(name, None)
        return waits

    def _arm(self, inotify: Inotify) -> bool:
        """Watch what the last look says, and no more. Returns whether something is watched that was not before."""
        wanted = {
            place: _ENTRIES | _ITSELF | (_CONTENT if any(entries.values()) else Mask.ZERO)
            for place, entries in self._last.places.items()
        }
        if self._last.home is not None:
            wanted[self._last.home] = _ENTRIES | _ITSELF | _CONTENT
        fresh = False
        for place, mask in wanted.items():
            if self._watches.get(place, (None, Mask.ZERO))[1] == mask:
                continue
            try:
                watch = inotify.add_watch(place.path, mask | Mask.MASK_ADD)
            except OSError as error:
                self._tell_unwatched(place.path, error)
                continue
            self._watches[place] = (watch, mask)
            fresh = True
        for place in self._watches.keys() - wanted.keys():
            watch, _ = self._watches.pop(place)
            if all(other is not watch for other, _ in self._watches.values()):
                with contextlib.suppress(OSError):  # it is gone already
                    inotify.rm_watch(watch)
        return fresh

    def _tell_unwatched(self, path: Path, error: OSError) -> None:
        """Log once per directory that it cannot be watched."""
        if path not in self._unwatched:
            self._unwatched.add(path)
            self._log.warning(
                "a directory cannot be watched; changes in it are only seen by looking now and then",
                directory=str(path),
                reason=error.strerror,
                seconds=self._check_frequency,
            )
