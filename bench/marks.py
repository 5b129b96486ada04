"""Moments at which containers did something, seen from the host: a container makes a file, inotify tells when.

All times are of the host's monotonic clock, so nothing depends on a clock inside the container.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

from asyncinotify import Inotify, Mask


class Marks:
    """`folder` is mounted at /marks in every container of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seen: dict[str, float] = {}
        self._changed = asyncio.Condition()

    async def at(self, name: str, *, within: float = 120) -> float:
        """When the mark was made, waiting for it. Raises TimeoutError."""
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: name in self._seen)
        return self._seen[name]

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[Marks]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with Inotify() as inotify:
            inotify.add_watch(self.folder, Mask.CREATE)
            task = asyncio.create_task(self._watch(inotify), name="marks")
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _watch(self, inotify: Inotify) -> None:
        async for event in inotify:
            now = time.monotonic()
            async with self._changed:
                self._seen.setdefault(str(event.name), now)
                self._changed.notify_all()


def script(name: str, *, run: float | None = None, code: int = 0) -> list[str]:
    """A container that marks its start and its SIGTERM; with `run` it marks its end and exits after so many seconds."""
    body = (
        f"sleep {run}; : >/marks/{name}.ending; exit {code}"
        if run is not None
        else "while :; do sleep 1000 & wait; done"
    )
    return ["sh", "-c", f": >/marks/{name}.started; trap ': >/marks/{name}.term; exit 0' TERM; {body}"]
