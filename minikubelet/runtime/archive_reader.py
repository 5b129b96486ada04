"""An archive's file, read in a thread of its own: a slow one holds up neither the loop nor what else needs a thread.

`archive.import_archive` makes one for each import. When it is left, also half-way, the reading ends with the piece
that is being read, and the thread closes the file: never the loop, under its hands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

from minikubelet.runtime.archive_contents import Contents, read_contents
from minikubelet.runtime.archive_file import ArchiveError, opened, pieces, survey

T = TypeVar("T")


class ArchiveReader:
    """Raises ArchiveError from everything, with the file's path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="image archive")
        self._given_up = threading.Event()
        self._file: IO[bytes] | None = None
        self._opened = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._given_up.set()
        self._thread.submit(self._opened.close)
        self._thread.shutdown(wait=False)

    async def contents(self) -> Contents:
        """What it holds. Reads all of it."""
        return await self._read(
            lambda: read_contents(survey(self._open(), given_up=self._given_up.is_set), architecture=platform.machine())
        )

    async def pieces(self, wanted: Collection[int]) -> AsyncGenerator[tuple[int, bytes], None]:
        """As `archive_file.pieces`."""
        source = pieces(self._open(), wanted, given_up=self._given_up.is_set)
        while (piece := await self._read(lambda: next(source, None))) is not None:
            yield piece

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self._file = self._opened.enter_context(opened(self._path))
        return self._file

    async def _read(self, read: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except ArchiveError as error:
            raise self.error(error) from error

    def error(self, error: ArchiveError) -> ArchiveError:
        """The same, with the file's path: as text, also when it is not UTF-8."""
        return ArchiveError(f"{os.fsencode(self._path).decode(errors='backslashreplace')}: {error}")
