"""Keeps the logs of running containers from filling the disk (LG-2).

Nothing tells of a file that grows, so each is looked at every ten seconds. One that has become too large is put aside
and containerd told to begin a new one; older ones are packed, and those beyond the number that may be kept removed.
Which file is what is said by `pods.log_files`; `daemon.py` runs this.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from minikubelet.pods.log_files import PACKED, UNFINISHED, Tidying, name_aside, tidying
from minikubelet.runtime.errors import ContainerRuntimeError

log = structlog.get_logger(__name__)

#: Seconds between two looks.
PERIOD = 10.0


class Containers(Protocol):
    """What is to be known of them; `runtime.state.RuntimeState`."""

    @property
    def connected(self) -> bool: ...

    def running_logs(self) -> Mapping[str, Path]:
        """The log of each running container, by the container's id."""

    def has_container(self, container_id: str) -> bool: ...


class LogRotation:
    def __init__(
        self,
        containers: Containers,
        reopen: Callable[[str], Awaitable[None]],
        *,
        max_size: int,
        max_files: int,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """`reopen`: have containerd begin the log of a container anew. `max_size`: bytes from which a log is put aside;
        below 0 none is. `max_files`: of one container instance, 2 or more. `now`: local time, which names the files.
        """
        self._containers = containers
        self._reopen = reopen
        self._max_size = max_size
        self._max_files = max_files
        self._now = now
        #: Containers whose trouble has been told of.
        self._told: set[str] = set()

    async def run(self) -> None:
        """Until cancelled; returns at once if no log is ever to be put aside."""
        while self._max_size >= 0:
            await asyncio.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Look at every log once, one after the other. What keeps one from being put aside is logged, once."""
        if not self._containers.connected:
            return
        logs = self._containers.running_logs()
        sizes = await asyncio.to_thread(_sizes, logs.values())
        troubled = set()
        for (container_id, path), size in zip(logs.items(), sizes, strict=True):
            try:
                if size is None:  # somebody removed it: containerd writes on into nowhere
                    await self._reopen(container_id)
                elif size >= self._max_size:
                    await self._rotate(container_id, path)
            except (OSError, ContainerRuntimeError) as error:
                if not self._containers.has_container(container_id):
                    continue
                troubled.add(container_id)
                if container_id not in self._told:
                    log.warning("a container's log cannot be rotated", log=str(path), error=str(error))
        self._told = troubled

    async def _rotate(self, container_id: str, path: Path) -> None:
        await asyncio.to_thread(self._tidy, path)
        aside = path.with_name(name_aside(path.name, self._now()))
        if await asyncio.to_thread(_put_aside, path, aside):
            try:
                await self._reopen(container_id)
            except ContainerRuntimeError:
                await asyncio.to_thread(_move, aside, path)
                raise
            finally:
                if not self._containers.has_container(container_id):
                    await asyncio.to_thread(_remove_all, path)

    def _tidy(self, path: Path) -> None:
        todo: Tidying = tidying(path.name, _names(path.parent), max_files=self._max_files)
        for name in todo.remove:
            path.with_name(name).unlink(missing_ok=True)
        for name in todo.pack:
            if _size(path.with_name(name)):
                _pack(path.with_name(name))


def _sizes(paths: Iterable[Path]) -> list[int | None]:
    return [_size(path) for path in paths]


def _size(path: Path) -> int | None:
    """In bytes; None: it is not there. 0 of what is no file: a pod that has this folder mounted can put links there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


def _pack(path: Path) -> None:
    """Replace a file by a packed one, so that at every moment one of both is there and whole."""
    unfinished = path.with_name(path.name + UNFINISHED)
    with open(path, "rb", opener=_no_link) as source, unfinished.open("xb") as file:
        os.fchmod(file.fileno(), os.fstat(source.fileno()).st_mode & 0o777)
        with gzip.GzipFile(fileobj=file, mode="wb", filename=path.name) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)
    unfinished.rename(path.with_name(path.name + PACKED))
    path.unlink()


def _put_aside(path: Path, aside: Path) -> bool:
    """False: there is a file of this moment, a clock was set back; the next look is at another moment."""
    return not aside.with_name(aside.name + PACKED).exists() and _move(path, aside)


def _move(source: Path, target: Path) -> bool:
    """Rename, but never over another file; False if there is one, such as a log that was begun anew after all."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    source.unlink()
    return True


def _remove_all(path: Path) -> None:
    """The container was removed meanwhile, and its logs with it: what has been made since goes, too."""
    with contextlib.suppress(OSError):
        for name in _names(path.parent):
            if name.startswith(path.name):
                path.with_name(name).unlink(missing_ok=True)
        path.parent.rmdir()
        path.parent.parent.rmdir()
