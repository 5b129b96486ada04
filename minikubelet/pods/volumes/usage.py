"""Looks now and then whether an emptyDir on disk has outgrown its sizeLimit, and says so in the log (VO-5).

Nothing tells of a file that grows, so this is one of the few things that has to be asked again and again. It never
evicts: pods of a folder would only come back. Limits of volumes in memory are kept by their file system.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import structlog

from minikubelet.api import quantity
from minikubelet.api.pod import Pod
from minikubelet.pods.volumes.layout import EMPTY_DIR, Layout

log = structlog.get_logger(__name__)

#: Seconds between two looks.
PERIOD = 10.0
#: What lies deeper is not counted: each level holds a descriptor open.
_MAX_DEPTH = 40
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512


class SizeWatch:
    def __init__(self, layout: Layout, pods: Callable[[], Iterable[Pod]]) -> None:
        """`pods`: all of them, as they are now."""
        self._layout = layout
        self._pods = pods
        #: Volumes that have been told of and still are too large, by the pod's uid and their name.
        self._over: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(PERIOD)
            await self.look()

    async def look(self) -> None:
        """Measure every volume that has a limit; log those that have passed it since the last look."""
        over = set()
        for pod, name, limit in list(self._limited()):
            key = (pod.metadata.uid, name)
            path = self._layout.volume(pod.metadata.uid, EMPTY_DIR, name)
            if await asyncio.to_thread(used_bytes, path) <= quantity.whole(limit):
                continue
            over.add(key)
            if key not in self._over:
                message = (
                    f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". Pods are not evicted for that'
                )
                log.warning(
                    message,
                    pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
                    uid=pod.metadata.uid,
                )
        self._over = over

    def _limited(self) -> Iterator[tuple[Pod, str, str]]:
        for pod in self._pods():
            if pod.status is not None and pod.status.phase in ("Succeeded", "Failed"):
                continue
            for volume in pod.spec.volumes:
                source = volume.empty_dir
                if source is not None and not source.medium and source.size_limit and quantity.parse(source.size_limit):
                    yield pod, volume.name, source.size_limit


def used_bytes(directory: Path) -> int:
    """What the files below a directory take on its file system; 0 if it is not there.

    No link is followed, no other file system entered, whatever a container does meanwhile; a file with several names
    counts once.
    """
    try:
        top = os.open(directory, _OPEN)
    except OSError:
        return 0
    try:
        return _used(top, os.fstat(top).st_dev, set(), depth=0)
    finally:
        os.close(top)


def _used(directory: int, device: int, seen: set[int], *, depth: int) -> int:
    total = os.fstat(directory).st_blocks * _BLOCK
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if found.st_dev != device or found.st_ino in seen:
                continue
            child = (
                os.open(name, _OPEN, dir_fd=directory) if stat.S_ISDIR(found.st_mode) and depth < _MAX_DEPTH else None
            )
        except OSError:
            continue  # gone or changed meanwhile
        if child is None:
            seen.add(found.st_ino)
            total += found.st_blocks * _BLOCK
            continue
        try:
            if os.fstat(child).st_dev == device:
                total += _used(child, device, seen, depth=depth + 1)
        finally:
            os.close(child)
    return total
