"""Directories and files with exact modes, whatever the umask, and the two files every container has (MT-4, MT-6)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from minikubelet.pods.volumes.layout import PLUGIN, PRIVATE, Layout


def make_directory(path: Path, mode: int, *, parents: int = PRIVATE) -> None:
    """Make a directory of exactly this mode, missing parents with theirs; one that is there keeps its mode."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_directory(path.parent, parents)
    path.mkdir(exist_ok=True)
    path.chmod(mode)


def own_directory(path: Path, layout: Layout) -> None:
    """A plug-in's folder `volumes/<plugin>` of a pod, and what is above it up to the agent's root folder (PD-1)."""
    make_directory(layout.root, PRIVATE, parents=PLUGIN)
    make_directory(path, PLUGIN)


def write_shared(path: Path, content: str) -> None:
    """Write a file that containers have mounted: in place, since they would not see a new one, and never half-empty.

    Written only if it differs, so that a rewrite at each container start does not disturb those that run (MT-4).
    """
    data = content.encode()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.fchown(fd, os.geteuid(), os.getegid())  # a container may have given it away
        os.fchmod(fd, 0o644)
        if os.pread(fd, len(data) + 1, 0) != data:
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def create_termination_log(directory: Path, *, in_use: Collection[str]) -> Path:
    """A new empty file that any user of the container may write to (MT-6). Raises OSError.

    `in_use`: paths of those that containers have. All others were made for attempts that came to nothing or are
    forgotten: they go, or a container that fails for ever would fill the disk.
    """
    make_directory(directory, PRIVATE)
    for other in directory.iterdir():
        if str(other) not in in_use:
            other.unlink()
    path = directory / secrets.token_hex(4)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(fd, 0o666)
    finally:
        os.close(fd)
    return path
