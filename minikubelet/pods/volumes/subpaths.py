"""subPath: a part of a volume, held fast before a container is given it (MT-8, MT-9).

A container that writes to the volume may turn any part of the path into a link to anywhere, at any moment. So the path
is walked down one directory at a time by descriptors that follow no link, and what is bound to a place of the agent's
own is the open descriptor, not the path. The runtime then mounts that place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from minikubelet.api.expansion import expand, references
from minikubelet.api.pod import Container, VolumeMount
from minikubelet.pods.volumes import mounts
from minikubelet.pods.volumes.files import make_directory
from minikubelet.pods.volumes.plugin import PluginError

log = structlog.get_logger(__name__)

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = _PATH | os.O_DIRECTORY


def sub_path_of(mount: VolumeMount, environment: Mapping[str, str]) -> str:
    """The path that a mount asks for, "" for all of the volume. Raises PluginError (MT-8)."""
    path = mount.sub_path
    if mount.sub_path_expr:
        missing = sorted({name for name in references(mount.sub_path_expr) if not environment.get(name)})
        if missing:
            raise PluginError(f"missing value for {', '.join(missing)}")
        path = expand(mount.sub_path_expr, environment)
    if path.startswith("/"):
        raise PluginError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise PluginError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def hold_all(
    container: Container,
    *,
    volumes: Mapping[str, str],
    environment: Mapping[str, str],
    place_of: Callable[[str, int], Path],
) -> dict[int, str]:
    """Hold every subPath of a container; the places to mount, by index among its mounts.

    `volumes`: paths by name. `place_of`: from volume and index. Blocking. Raises PluginError.
    """
    held = {}
    for index, mount in enumerate(container.volume_mounts):
        path = sub_path_of(mount, environment)
        if path and volumes.get(mount.name):
            held[index] = _hold(mount, container, Path(volumes[mount.name]), path, place_of(mount.name, index))
    return held


def _hold(mount: VolumeMount, container: Container, volume: Path, path: str, place: Path) -> str:
    """What went wrong is for the log: a message would tell the pod about the host."""
    where = f'subPath for volumeMount "{mount.name}" of container "{container.name}"'
    try:
        make_missing(volume, path)
    except OSError as problem:
        log.warning("a subPath cannot be made", volume=mount.name, container=container.name, error=str(problem))
        raise PluginError(f"failed to create {where.replace('subPath', 'subPath directory', 1)}") from problem
    try:
        hold(volume, path, place)
    except OSError as problem:
        log.warning("a subPath cannot be mounted", volume=mount.name, container=container.name, error=str(problem))
        raise PluginError(f"failed to prepare {where}") from problem
    return str(place)


def make_missing(volume: Path, path: str) -> None:
    """Make what is missing of a path as directories with the volume's own permissions. Raises OSError."""
    if (volume / path).exists():
        return
    top = _resolved(volume)
    existing, missing = _existing(top, path)
    if not missing:
        return
    fd = _open_below(top, existing)
    try:
        mode = stat.S_IMODE(top.stat().st_mode) & 0o2777  # with the bit that passes the pod's group on (fsGroup)
        for name in missing:
            os.mkdir(name, mode, dir_fd=fd)
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = child
            os.fchmod(fd, mode)
    finally:
        os.close(fd)


def hold(volume: Path, path: str, place: Path) -> None:
    """Make what is at `path` of the volume appear at `place`, and nothing else, whatever happens meanwhile.

    Raises OSError, also when the path leads out of the volume.
    """
    top = _resolved(volume)
    target = _resolved(top / path)
    if target != top and top not in target.parents:
        raise PermissionError(f"{path} leads out of the volume")
    fd = _open_below(top, target)
    try:
        _bind(fd, place)
    finally:
        os.close(fd)


def _existing(top: Path, path: str) -> tuple[Path, list[str]]:
    """Where the part of a path that is there leads to, and the names that are missing below it."""
    here = top
    names = [name for name in path.split("/") if name not in ("", ".")]
    for count, name in enumerate(names):
        step = here / name
        if not os.path.lexists(step):
            return here, names[count:]
        here = _resolved(step)
        if here != top and top not in here.parents:
            raise PermissionError(f"{path} leads out of the volume")
    return here, []


def _resolved(path: Path) -> Path:
    """Raises OSError: it is not there, or its links go round in circles."""
    return Path(os.path.realpath(path, strict=True))


def _open_below(top: Path, target: Path) -> int:
    """A descriptor of `target`, reached from `top` without following any link."""
    fd = os.open(top, _DIRECTORY)
    names = target.relative_to(top).parts
    try:
        for count, name in enumerate(names):
            child = os.open(name, _DIRECTORY if count < len(names) - 1 else _PATH, dir_fd=fd)
            os.close(fd)
            fd = child
    except OSError:
        os.close(fd)
        raise
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise PermissionError(f"{target} has become a link")
    return fd


def _bind(fd: int, place: Path) -> None:
    wanted = os.fstat(fd)
    if _is_there(wanted, place):
        return
    while mounts.is_mount_point(place):
        mounts.unmount(place)
    make_directory(place.parent, 0o750)
    if stat.S_ISDIR(wanted.st_mode):
        if place.exists() and not place.is_dir():
            place.unlink()
        place.mkdir(mode=0o750, exist_ok=True)
    else:
        if place.is_dir():
            place.rmdir()
        place.touch(mode=0o640)
    mounts.bind(f"/proc/self/fd/{fd}", place)


def _is_there(wanted: os.stat_result, place: Path) -> bool:
    try:
        found = place.lstat()
    except OSError:
        return False
    same = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
    return same and mounts.is_mount_point(place)
