"""emptyDir: a directory that lives as long as the pod, on disk, in memory or on huge pages (VO-3, VO-4)."""

from __future__ import annotations

import os

from minikubelet.api import quantity
from minikubelet.api.pod import EmptyDirVolumeSource, Pod
from minikubelet.pods.volumes import mounts
from minikubelet.pods.volumes.files import make_directory, own_directory
from minikubelet.pods.volumes.layout import EMPTY_DIR
from minikubelet.pods.volumes.ownership import fs_group, give_to_group
from minikubelet.pods.volumes.plugin import PluginError, Request

_HUGE = "HugePages"


def set_up(request: Request) -> str:
    """Make it, unless its ready mark says that it is there: then what is in it stays."""
    source = request.volume.empty_dir or EmptyDirVolumeSource()
    uid = request.pod.metadata.uid
    path = request.layout.volume(uid, EMPTY_DIR, request.volume.name)
    mark = request.layout.ready_mark(uid, EMPTY_DIR, request.volume.name)
    filesystem, options = _filesystem(source, request)
    # A reboot takes a file system in memory away and leaves the mark.
    ready = mark.exists() and path.is_dir() and (not filesystem or os.path.ismount(path))
    if not ready:
        own_directory(path.parent, request.layout)
        make_directory(path, 0o777)
        if filesystem and not os.path.ismount(path):
            mounts.mount_in_memory(filesystem, path, options=options)
        give_to_group(path, fs_group(request.pod), writable=True)
        make_directory(mark.parent, 0o750)
        mark.touch()
    return str(path)


def _filesystem(source: EmptyDirVolumeSource, request: Request) -> tuple[str, str]:
    """Its type and mount options, or nothing for a plain directory."""
    medium = source.medium
    if not medium:
        return "", ""
    if medium == "Memory":
        limits = [request.memory, quantity.whole(source.size_limit) if source.size_limit else 0]
        size = min((limit for limit in limits if limit > 0), default=0)
        return "tmpfs", f"size={size}" if size else ""
    if medium == _HUGE or medium.startswith(f"{_HUGE}-"):
        return "hugetlbfs", f"pagesize={_page_size(medium, request.pod)}"
    raise PluginError(f'unknown storage medium "{medium}"')


def _page_size(medium: str, pod: Pod) -> int:
    """Of the medium, or of the one kind of huge pages the pod asks for; the pod must ask for it (VO-4)."""
    asked = {
        quantity.whole(name.removeprefix("hugepages-"))
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for name in (*container.resources.requests, *container.resources.limits)
        if name.startswith("hugepages-")
    }
    size = medium.removeprefix(_HUGE).removeprefix("-")
    if size:
        if quantity.whole(size) not in asked:
            raise PluginError(f'medium "{medium}" needs a container that requests hugepages-{size}')
        return quantity.whole(size)
    if len(asked) != 1:
        raise PluginError(f'medium "{medium}" needs containers that request huge pages of exactly one size')
    return asked.pop()
