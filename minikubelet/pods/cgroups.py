"""Pod cgroups: containerd makes them from `cgroup_parent` and leaves them behind (CD 2), so we remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_ROOT = Path("/sys/fs/cgroup")


def _hierarchies() -> Iterator[Path]:
    """The mount point of each cgroup hierarchy: one on v2, one a controller on v1 (links to joint mounts left out)."""
    if (_ROOT / "cgroup.controllers").exists():
        yield _ROOT
        return
    for entry in _ROOT.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            yield entry


def _remove_tree(path: Path) -> None:
    """Remove a cgroup and its children, leaves first. Their files are the kernel's and go along."""
    for child in path.iterdir():
        if child.is_dir():
            _remove_tree(child)
    path.rmdir()


def _remove(parent: str) -> None:
    for hierarchy in _hierarchies():
        path = hierarchy / parent.lstrip("/")
        try:
            _remove_tree(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("a pod's cgroup could not be removed", path=str(path), error=str(error))


async def remove_pod_cgroup(parent: str) -> None:
    """Remove the pod's cgroup in every hierarchy. `parent` is the path that was sent as `cgroup_parent`."""
    await asyncio.to_thread(_remove, parent)
