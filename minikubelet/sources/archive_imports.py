"""What `archives` knows of a file, and the one import that goes on, which ends when its file goes or changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from minikubelet.runtime.archive import NamedImage
from minikubelet.runtime.images import Record
from minikubelet.sources.archive_notes import Note
from minikubelet.sources.reading import Signature


class Images(Protocol):
    """What is needed of `runtime.images.ImageService`."""

    async def import_archive(self, path: Path) -> list[NamedImage]: ...
    async def records(self) -> dict[str, Record]: ...


class ArchivesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the folder is, for `/status`."""

    #: Names of images, by file.
    images: Mapping[str, tuple[str, ...]]
    #: What is wrong, by file; the folder's own error has its path.
    errors: Mapping[str, str]
    being_written: frozenset[str]
    #: Files that are still to be imported.
    due: frozenset[str]


class Archive(msgspec.Struct, kw_only=True):
    """A file of the folder as far as it was dealt with."""

    path: Path
    #: None: it cannot be read, or not yet.
    signature: Signature | None = None
    #: What is known of the import of this content, or of an earlier one.
    note: Note | None = None
    error: str = ""
    being_written: bool = False
    #: When what containerd refused is tried again, and after what pause.
    retry_at: float | None = None
    pause: float = 0.0


class GivenUpError(Exception):
    """What is imported is not in the folder any more."""


class Importing:
    """At most one import goes on at a time."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._now: tuple[Archive, asyncio.Task[list[NamedImage]]] | None = None

    async def run(self, file: Archive) -> list[NamedImage]:
        """Import a file. Raises GivenUpError, and what the import raises."""
        task = asyncio.create_task(self._images.import_archive(file.path), name=f"import {file.path.name}")
        self._now = file, task
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if not task.cancelling():
                task.cancel()
            await asyncio.wait({task})  # it leaves nothing behind
            raise
        finally:
            self._now = None
        if task.cancelled():
            raise GivenUpError
        return task.result()

    def give_up(self, file: Archive) -> None:
        """End the import of what the file held, if it goes on; once, so that it can clean up."""
        if self._now is not None and self._now[0] is file and not self._now[1].cancelling():
            self._now[1].cancel()
