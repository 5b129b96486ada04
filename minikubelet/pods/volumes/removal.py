"""Removing what containers have left behind, whatever they have made of it.

A container can fill its volume with links to anywhere, with trees deeper than any stack, or (with mount propagation)
with mounts of the host's own data. So nothing here follows a link, leaves the mount it began on,
or recurses without bound.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from minikubelet.pods.volumes.mounts import mount_id

#: Deeper directories are moved up before they are emptied: each level of recursion holds a descriptor open.
_MAX_DEPTH = 64
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ForeignMountError(OSError):
    """Something is mounted inside what was to be removed."""


def remove_tree(path: Path) -> None:
    """Remove a directory and all in it; fine if it is not there.

    Raises ForeignMountError, without touching what is mounted there, and OSError.
    """
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove_top(parent, path)
    finally:
        os.close(parent)


def _remove_top(parent: int, path: Path) -> None:
    try:
        top = os.open(path.name, _OPEN, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        mount = mount_id(top)
        if mount != mount_id(parent):
            raise ForeignMountError(f"{path} is a mount point; it is left as it is")
        while True:
            moved = _empty(top, path, top=top, mount=mount, depth=0)
            if not moved:
                break
    finally:
        os.close(top)
    os.rmdir(path.name, dir_fd=parent)


def _empty(directory: int, path: Path, *, top: int, mount: str, depth: int) -> bool:
    """Remove what is in an open directory; whether something was moved up to `top` instead."""
    moved = False
    with os.scandir(directory) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in listed:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
            continue
        if depth >= _MAX_DEPTH:
            os.rename(name, f".removed-{secrets.token_hex(8)}", src_dir_fd=directory, dst_dir_fd=top)
            moved = True
            continue
        child = os.open(name, _OPEN, dir_fd=directory)
        try:
            if mount_id(child) != mount:
                raise ForeignMountError(f"{path / name} is a mount point; it is left as it is")
            moved |= _empty(child, path / name, top=top, mount=mount, depth=depth + 1)
        finally:
            os.close(child)
        os.rmdir(name, dir_fd=directory)
    return moved
