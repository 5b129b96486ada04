"""Sets up the volumes of a pod before its sandbox is made, and takes them down when all its containers have ended.

Used by `pods/executor.py` and `pods/cleanup.py`. All work on files is done in threads; everything may be repeated
at any time, also after the daemon was killed in the middle of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import structlog

from minikubelet.api.pod import Pod, Volume
from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.pods.tasks import uncut
from minikubelet.pods.volumes import empty_dir, files, host_path, mounts
from minikubelet.pods.volumes.layout import Layout, UnsafeNameError
from minikubelet.pods.volumes.plugin import Plugin, PluginError, Request, VolumeError
from minikubelet.pods.volumes.removal import remove_tree

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

#: By the volume's field in the manifest. No field at all means emptyDir.
PLUGINS: Mapping[str, Plugin] = {"empty_dir": empty_dir.set_up, "host_path": host_path.set_up}

#: How long to wait before a set-up that failed is tried again (VO-2): 500 ms, doubling to 2m2s.
RETRY = BackoffPolicy(initial=0.5, factor=2.0, maximum=122.0)


class VolumeManager:
    """`root`: the agent's root folder. `memory`: what the node has to give to pods, in bytes (0: not known)."""

    def __init__(self, root: Path, *, memory: int = 0, plugins: Mapping[str, Plugin] = PLUGINS) -> None:
        self.layout = Layout(root)
        self._memory = memory
        self._plugins = plugins

    @staticmethod
    async def _in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A thread cannot be stopped: a cancelled caller waits for it, so that a removal never runs beside a set-up."""
        return await uncut(asyncio.to_thread(work, *args, **kwargs), name=f"volumes {work.__name__.strip('_')}")

    async def setup(self, pod: Pod, *, memory_limit: int = 0) -> dict[str, str]:
        """Make every volume ready that some container mounts; the path to mount, by volume name.

        `memory_limit`: the pod's own, in bytes, 0 for none. Raises VolumeError with the text of the event FailedMount.
        """
        memory = min((limit for limit in (self._memory, memory_limit) if limit > 0), default=0)
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        mounted = {mount.name for container in containers for mount in container.volume_mounts}
        wanted = [
            Request(pod=pod, volume=volume, layout=self.layout, memory=memory)
            for volume in pod.spec.volumes
            if volume.name in mounted
        ]
        return await self._in_thread(self._setup, wanted) if wanted else {}

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

    async def termination_log(self, uid: str, container: str) -> str | None:
        """A new file for the container's last words, or None if it cannot be made: then it goes without (MT-6)."""
        directory = self.layout.container(uid, container)
        try:
            return str(await self._in_thread(files.create_termination_log, directory))
        except OSError as problem:
            log.warning(
                "no termination log: the container goes without", uid=uid, container=container, error=str(problem)
            )
            return None

    async def teardown(self, uid: str) -> None:
        """Unmount and delete the volumes; what else is known of the pod stays (VO-14). All its containers have ended.

        Raises VolumeError when something is still in use or mounted there: nothing below it was touched; try again.
        """
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
        await self._in_thread(self._remove_pod_dir, uid)

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
