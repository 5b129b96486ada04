"""Sets up the volumes of a pod before its sandbox is made, and takes them down when all its containers have ended.

Used by `pods/executor.py` and `pods/cleanup.py`. All work on files is done in threads; everything may be repeated
at any time, also after the daemon was killed in the middle of it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import ParamSpec, TypeVar

import structlog

from minikubelet.api.pod import Container, Pod, Volume
from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.pods.objects import ObjectStore
from minikubelet.pods.tasks import uncut
from minikubelet.pods.volumes import claim, empty_dir, files, host_path, mounts, projection, subpaths
from minikubelet.pods.volumes.layout import Layout, UnsafeNameError
from minikubelet.pods.volumes.plugin import Plugin, PluginError, Refresher, Request, VolumeError
from minikubelet.pods.volumes.removal import remove_tree

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

#: By the volume's field in the manifest. No field at all means emptyDir.
PLUGINS: Mapping[str, Plugin] = {
    "empty_dir": empty_dir.set_up,
    "host_path": host_path.set_up,
    "config_map": projection.set_up,
    "secret": projection.set_up,
    "downward_api": projection.set_up,
    "projected": projection.set_up,
    "persistent_volume_claim": claim.set_up,
    "image": lambda _: "",  # the runtime mounts it
}
#: Of the kinds whose content follows what it is made of.
REFRESHERS: Mapping[str, Refresher] = {
    "config_map": projection.refresh,
    "secret": projection.refresh,
    "downward_api": projection.refresh,
    "projected": projection.refresh,
}

#: How long to wait before a set-up that failed is tried again (VO-2): 500 ms, doubling to 2m2s.
RETRY = BackoffPolicy(initial=0.5, factor=2.0, maximum=122.0)


class VolumeManager:
    """`root`: the agent's root folder. `allocatable`: what the node has for pods, see NodeContext.

    `objects`: what volumes are made of. `memory_limit`: how much memory a pod may use in bytes, 0 for no limit.
    """

    def __init__(
        self,
        root: Path,
        *,
        allocatable: Mapping[str, Fraction] | None = None,
        objects: ObjectStore | None = None,
        memory_limit: Callable[[Pod], int] = lambda _: 0,
        plugins: Mapping[str, Plugin] = PLUGINS,
    ) -> None:
        self.layout = Layout(root)
        self._allocatable = allocatable or {}
        self._objects = objects or ObjectStore()
        self._memory_limit = memory_limit
        self._plugins = plugins
        #: By uid: nothing of a pod's volumes is done beside anything else.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @staticmethod
    async def _in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A thread cannot be stopped: a cancelled caller waits for it, so that a removal never runs beside a set-up."""
        return await uncut(asyncio.to_thread(work, *args, **kwargs), name=f"volumes {work.__name__.strip('_')}")

    async def setup(self, pod: Pod) -> dict[str, str]:
        """Make every volume ready that some container mounts; the path to mount, by volume name.

        Raises VolumeError with the text of the event FailedMount.
        """
        wanted = self._requests(pod)
        if not wanted:
            return {}
        async with self._locks[pod.metadata.uid]:
            return await self._in_thread(self._setup, wanted)

    def _requests(self, pod: Pod) -> list[Request]:
        limits = (int(self._allocatable.get("memory", 0)), self._memory_limit(pod))
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        mounted = {mount.name for container in containers for mount in container.volume_mounts}
        return [
            Request(
                pod=pod,
                volume=volume,
                layout=self.layout,
                memory=min((limit for limit in limits if limit > 0), default=0),
                objects=self._objects.now,
                uncertain=self._objects.uncertain,
                allocatable=self._allocatable,
            )
            for volume in pod.spec.volumes
            if volume.name in mounted
        ]

    async def subpaths(
        self, pod: Pod, container: Container, *, volumes: Mapping[str, str], environment: Mapping[str, str]
    ) -> dict[int, str]:
        """Hold the parts of volumes that the container mounts (MT-9); their places, by index among its mounts.

        `volumes` as `setup` gives them. Raises VolumeError.
        """
        if not any(mount.sub_path or mount.sub_path_expr for mount in container.volume_mounts):
            return {}
        uid = pod.metadata.uid

        def hold() -> dict[int, str]:
            try:
                return subpaths.hold_all(
                    container,
                    volumes=volumes,
                    environment=environment,
                    place_of=lambda volume, index: self.layout.subpath(uid, volume, container.name, index),
                )
            except (PluginError, UnsafeNameError, OSError) as problem:
                raise VolumeError(str(problem)) from problem

        async with self._locks[uid]:
            return await self._in_thread(hold)

    async def refresh(self, pod: Pod) -> None:
        """Bring the content of the volumes that were set up to what it should be now (VO-13).

        Raises VolumeError when one cannot be; all others were.
        """
        wanted = [request for request in self._requests(pod) if _refresher(request.volume) is not None]
        if wanted:
            async with self._locks[pod.metadata.uid]:
                await self._in_thread(self._refresh, wanted)

    def _refresh(self, wanted: Sequence[Request]) -> None:
        problems = []
        for request in wanted:
            refresher = _refresher(request.volume)
            try:
                if refresher is not None:
                    refresher(request)
            except (PluginError, UnsafeNameError, OSError) as problem:
                problems.append(f'MountVolume.SetUp failed for volume "{request.volume.name}" : {problem}')
        if problems:
            raise VolumeError("; ".join(problems))

    def _setup(self, wanted: Sequence[Request]) -> dict[str, str]:
        paths = {}
        for request in wanted:
            name = request.volume.name
            try:
                paths[name] = self._plugin(request.volume)(request)
            except (PluginError, UnsafeNameError, OSError) as problem:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {problem}') from problem
        return paths

    def _plugin(self, volume: Volume) -> Plugin:
        for field, plugin in self._plugins.items():
            if getattr(volume, field) is not None:
                return plugin
        return self._plugins["empty_dir"]

    async def write_hosts(self, uid: str, content: str) -> str:
        """Write the pod's /etc/hosts, before each container that is made; its path (MT-4). Raises OSError."""
        path = self.layout.etc_hosts(uid)
        await self._in_thread(self._write_hosts, path, content)
        return str(path)

    def _write_hosts(self, path: Path, content: str) -> None:
        files.make_directory(path.parent, 0o750)
        files.write_shared(path, content)

    async def termination_log(self, uid: str, container: str, *, in_use: Collection[str] = ()) -> str | None:
        """A new file for the container's last words, or None if it cannot be made: then it goes without (MT-6).

        `in_use`: the files of containers that there are; older ones beside them are removed.
        """
        directory = self.layout.container(uid, container)
        try:
            return str(await self._in_thread(files.create_termination_log, directory, in_use=in_use))
        except OSError as problem:
            log.warning(
                "no termination log: the container goes without", uid=uid, container=container, error=str(problem)
            )
            return None

    async def teardown(self, uid: str) -> None:
        """Unmount and delete the volumes; what else is known of the pod stays (VO-14). All its containers have ended.

        Raises VolumeError when something is still in use or mounted there: nothing below it was touched; try again.
        """
        async with self._locks[uid]:
            await self._in_thread(self._teardown, uid)

    def _teardown(self, uid: str) -> None:
        try:
            self._unmount(uid)
            remove_tree(self.layout.subpaths(uid))
            volumes = self.layout.volumes(uid)
            for plugin in volumes.iterdir() if volumes.is_dir() else ():
                for volume in plugin.iterdir():
                    remove_tree(volume)
            remove_tree(self.layout.marks(uid))
        except OSError as problem:
            raise VolumeError(f"UnmountVolume.TearDown failed for pod {uid} : {problem}") from problem

    def _unmount(self, uid: str) -> None:
        """Undo the agent's own mounts. What somebody else has mounted below is left alone, and stops the removal."""
        volumes, subpaths = self.layout.volumes(uid).resolve(), self.layout.subpaths(uid).resolve()
        for point in reversed(mounts.below(self.layout.pod(uid))):
            if point.parent.parent == volumes or subpaths in point.parents:
                mounts.unmount(point)

    async def remove_pod_dir(self, uid: str) -> None:
        """Delete everything of the pod; fine if nothing is there. Raises VolumeError as `teardown` does."""
        async with self._locks[uid]:
            await self._in_thread(self._remove_pod_dir, uid)
        self._locks.pop(uid, None)

    def _remove_pod_dir(self, uid: str) -> None:
        self._teardown(uid)
        try:
            remove_tree(self.layout.pod(uid))
        except OSError as problem:
            raise VolumeError(f"the directory of pod {uid} cannot be removed: {problem}") from problem

    async def pod_dirs(self) -> list[str]:
        """The uids that have a directory here, to find what a killed daemon has left behind."""
        return await self._in_thread(self._pod_dirs)

    def _pod_dirs(self) -> list[str]:
        return [entry.name for entry in self.layout.pods.iterdir()] if self.layout.pods.is_dir() else []


def _refresher(volume: Volume) -> Refresher | None:
    return next((refresh for field, refresh in REFRESHERS.items() if getattr(volume, field) is not None), None)
