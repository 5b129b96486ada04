"""persistentVolumeClaim: a directory on this host that belongs to no pod, and stays when pods go.

Pods wait for the claim's manifest. The directory is made when a pod first uses it, and removed by nobody but
`minikubelet claims delete`. A mark in the pod's own folder says that the pod uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from minikubelet.api.objects import NotFoundError
from minikubelet.pods.volumes.files import make_directory
from minikubelet.pods.volumes.layout import CLAIM, PLUGIN, PRIVATE, Layout
from minikubelet.pods.volumes.ownership import fs_group, give_to_group
from minikubelet.pods.volumes.plugin import PluginError, Request


def set_up(request: Request) -> str:
    source = request.volume.persistent_volume_claim
    if source is None:
        raise PluginError("it has no claim")
    namespace, uid = request.pod.metadata.namespace, request.pod.metadata.uid
    path = request.layout.claim(namespace, source.claim_name)
    mark = request.layout.ready_mark(uid, CLAIM, request.volume.name)
    used = f"{namespace}/{source.claim_name}"
    if path.is_dir() and mark.exists() and mark.read_text() == used:
        return str(path)  # also when its manifest is gone: what runs goes on
    try:
        request.objects.claim(namespace, source.claim_name)
    except NotFoundError as problem:
        raise PluginError(str(problem)) from problem
    make_directory(mark.parent, PRIVATE)
    mark.write_text(used)  # first: what has a mark is never deleted
    if not path.is_dir():
        make_directory(request.layout.root, PRIVATE, parents=PLUGIN)
        make_directory(path, 0o777)
    give_to_group_once(path, fs_group(request.pod))
    return str(path)


def give_to_group_once(path: Path, group: int | None) -> None:
    """The directory itself, if it is not the group's yet; what pods have put there stays theirs.

    (A walk over it would race with pods that write to it.)
    """
    if group is not None and path.stat().st_gid != group:
        give_to_group(path, group, writable=True, all_of_it=False)


def users_of(layout: Layout, namespace: str, name: str) -> Iterator[str]:
    """The uids of the pods that use a claim, or have not given it back yet."""
    for uid in layout.pods.iterdir() if layout.pods.is_dir() else ():
        marks = layout.marks(uid.name) / CLAIM
        if any(mark.read_text() == f"{namespace}/{name}" for mark in marks.glob("*/ready")):
            yield uid.name
