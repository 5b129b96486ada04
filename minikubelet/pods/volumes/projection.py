"""configMap, secret, downwardAPI and projected: volumes whose files are ours (VO-7 to VO-13).

All but configMaps lie in memory, since what they hold may be secret. They are written anew when what they are made of
changes; containers have them mounted read-only.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from minikubelet.api.pod import Pod, Volume
from minikubelet.pods.volumes import atomic, mounts
from minikubelet.pods.volumes.files import make_directory, own_directory
from minikubelet.pods.volumes.layout import CONFIG_MAP, DOWNWARD_API, EMPTY_DIR, PROJECTED, SECRET, Layout
from minikubelet.pods.volumes.ownership import fs_group, give_to_group
from minikubelet.pods.volumes.payload import Sources, UncertainError, payload_of
from minikubelet.pods.volumes.plugin import PluginError, Request


def set_up(request: Request) -> str:
    """Once set up, it never fails for what is missing now: what is there stays, and `refresh` says what is wrong."""
    path = _path(request)
    try:
        payload = payload_of(request.volume, _sources(request, uncertain=False))
    except PluginError:
        if atomic.current(path) is not None:
            return str(path)
        raise
    own_directory(path.parent, request.layout)
    make_directory(path, 0o777)
    if request.volume.config_map is None and not os.path.ismount(path):
        mounts.mount_in_memory("tmpfs", path, options=f"size={request.memory}" if request.memory else "")
    mark = request.layout.ready_mark(request.pod.metadata.uid, EMPTY_DIR, f"wrapped_{request.volume.name}")
    make_directory(mark.parent, 0o750)
    mark.touch()
    _write(path, payload, request.pod)
    _make_mount_points(path, request.volume, request.pod)
    return str(path)


def refresh(request: Request) -> None:
    """Bring the files up to date, if the volume was set up."""
    path = _path(request)
    if atomic.current(path) is None:
        return
    try:
        payload = payload_of(request.volume, _sources(request, uncertain=request.uncertain))
    except UncertainError:
        return
    _write(path, payload, request.pod)


def _write(path: Path, payload: atomic.Payload, pod: Pod) -> None:
    atomic.write(path, payload, own=lambda top: give_to_group(top, fs_group(pod), writable=False))


def _sources(request: Request, *, uncertain: bool) -> Sources:
    return Sources(pod=request.pod, objects=request.objects, allocatable=request.allocatable, uncertain=uncertain)


def _path(request: Request) -> Path:
    return path_of(request.volume, request.pod.metadata.uid, request.layout)


def path_of(volume: Volume, uid: str, layout: Layout) -> Path:
    """Where the volume is, or would be."""
    plugin = (
        CONFIG_MAP
        if volume.config_map is not None
        else SECRET
        if volume.secret is not None
        else DOWNWARD_API
        if volume.downward_api is not None
        else PROJECTED
    )
    return layout.volume(uid, plugin, volume.name)


def _make_mount_points(path: Path, volume: Volume, pod: Pod) -> None:
    """What is mounted below this volume needs a directory in it, which no container could make (VO-12)."""
    for nested in nested_mounts(volume.name, pod):
        place = path
        for element in nested.split("/"):
            place = place / element
            if place.is_symlink():
                raise PluginError(f"{nested} is to be a mount point, but the volume has a file of its own there")
            make_directory(place, 0o755)


def nested_mounts(name: str, pod: Pod) -> list[str]:
    """Paths within the volume at which some container has another mount."""
    found: set[str] = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        points = ["/" + posixpath.normpath(mount.mount_path).strip("/") for mount in container.volume_mounts]
        for mount, own in zip(container.volume_mounts, points, strict=True):
            if mount.name == name:
                top = f"{own.rstrip('/')}/"
                below = [point.removeprefix(top) for point in points if point.startswith(top) and point != own]
                found.update(point for point in below if not any(point.startswith(f"{other}/") for other in below))
    return sorted(found)
