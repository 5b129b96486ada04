"""What was imported from which archive, kept over the daemon's restarts. `sources.archives` is the only user.

A cache in a file of its own: without it every archive is read through once more, which does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec
import structlog

from minikubelet.sources.reading import Signature

log = structlog.get_logger(__name__)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An import: of which state of the file, what it brought, and which import it was."""

    #: Inode, size, and times of change. Not the device: its number may be another after a reboot.
    state: tuple[int, int, int, int]
    #: Digests by image name.
    images: dict[str, str]
    order: int

    def is_of(self, signature: Signature) -> bool:
        return self.state == signature[1:]


class ArchiveNotes:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._notes: dict[str, Note] = {}
        self._saved: bytes = b""

    @property
    def next_order(self) -> int:
        return max((note.order for note in self._notes.values()), default=0) + 1

    def files(self) -> list[str]:
        return list(self._notes)

    def images(self) -> frozenset[str]:
        """The names of all images that are noted."""
        return frozenset(name for note in self._notes.values() for name in note.images)

    def of(self, file: str) -> Note | None:
        return self._notes.get(file)

    def put(self, file: str, signature: Signature, images: dict[str, str]) -> Note:
        _, inode, size, modified, changed = signature
        note = Note(state=(inode, size, modified, changed), images=images, order=self.next_order)
        self._notes[file] = note
        return note

    def forget(self, file: str) -> None:
        self._notes.pop(file, None)

    async def load(self) -> None:
        """Take up what the last daemon has left; nothing if it cannot be read."""
        try:
            self._saved = await asyncio.to_thread(self._path.read_bytes)
            self._notes = msgspec.json.decode(self._saved, type=dict[str, Note])
        except (OSError, msgspec.MsgspecError):
            self._notes = {}

    async def save(self) -> None:
        """Keep it, if anything has changed; a full disk is told of and harms nothing."""
        data = msgspec.json.encode(self._notes)
        if data == self._saved:
            return
        try:
            await asyncio.to_thread(_replace, self._path, data)
        except OSError as error:
            log.warning("what image archives brought cannot be noted", file=str(self._path), error=error.strerror)
        else:
            self._saved = data


def _replace(path: Path, data: bytes) -> None:
    staged = path.with_name(f"{path.name}.new")
    try:
        with staged.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
