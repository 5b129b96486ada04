"""Pods' cgroups as their workers use them: made before the sandbox, removed at the end, classes kept in proportion."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Protocol

import structlog

from minikubelet.api.pod import Pod
from minikubelet.api.qos import BEST_EFFORT, BURSTABLE
from minikubelet.pods.cgroups.systemd import Slices
from minikubelet.pods.cgroups.tree import CgroupTree
from minikubelet.runtime.mapping import NodeContext, cgroup_parent
from minikubelet.runtime.mapping.cgroup import (
    CgroupLimits,
    pod_limits,
    qos_cgroup,
    qos_limits,
    root_cgroup,
    root_limits,
    weight_in_class,
)

log = structlog.get_logger(__name__)


class CgroupError(Exception):
    """A pod's cgroup cannot be made; worth another try later."""


class _Driver(Protocol):
    async def make(self, path: str, limits: CgroupLimits) -> None: ...
    async def remove(self, path: str) -> None: ...


class _Files:
    """Driver cgroupfs."""

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree

    async def make(self, path: str, limits: CgroupLimits) -> None:
        await asyncio.to_thread(self._make, path, limits)

    def _make(self, path: str, limits: CgroupLimits) -> None:
        self._tree.make(path)
        self._tree.limit(path, limits)

    async def remove(self, path: str) -> None:
        await asyncio.to_thread(self._tree.remove, path)


class _Systemd:
    """Driver systemd: the path's last element is the slice's name."""

    def __init__(self, tree: CgroupTree, slices: Slices) -> None:
        self._tree = tree
        self._slices = slices

    async def make(self, path: str, limits: CgroupLimits) -> None:
        await self._slices.make(PurePosixPath(path).name, limits)
        if any(limits.huge_pages.values()):
            await asyncio.to_thread(self._tree.limit, path, limits, only="hugetlb")

    async def remove(self, path: str) -> None:
        if not await asyncio.to_thread(self._tree.exists, path):
            return
        await self._slices.remove(PurePosixPath(path).name)
        await asyncio.to_thread(self._tree.remove, path)  # in controllers that systemd does not look after


class PodCgroups:
    """`make` and `adopt` say which pods are active, `remove` which are no more."""

    def __init__(self, node: NodeContext, driver: _Driver) -> None:
        self._node = node
        self._driver = driver
        self._weights: dict[str, int] = {}  # of active pods, by uid
        self._lock = asyncio.Lock()
        self._roots_made = False
        self._burstable: CgroupLimits | None = None

    async def prepare(self) -> None:
        """Make the cgroups that all pods are under. What keeps it from that is told; it is tried again with a pod."""
        try:
            await self._make_roots()
        except OSError as error:
            log.warning("the cgroups of pods cannot be made", path=root_cgroup(self._node), error=str(error))

    def adopt(self, pod: Pod) -> None:
        """The pod has its cgroup since before the daemon began."""
        self._weights[pod.metadata.uid] = weight_in_class(pod)

    async def make(self, pod: Pod) -> None:
        """Make the pod's cgroup with its limits, unless it is there (CG-7). Raises CgroupError."""
        self._weights[pod.metadata.uid] = weight_in_class(pod)
        path = cgroup_parent(pod, self._node)
        try:
            await self._make_roots()
            await self._balance()
            await self._driver.make(path, pod_limits(pod, self._node))
        except OSError as error:
            raise CgroupError(f"failed to create container for {path} : {error}") from error

    async def remove(self, pod: Pod) -> None:
        """Remove the pod's cgroup, and kill what is left in it. What keeps it from going is told."""
        path = cgroup_parent(pod, self._node)
        self._weights.pop(pod.metadata.uid, None)
        try:
            await self._driver.remove(path)
            await self._balance()
        except OSError as error:
            log.warning("a pod's cgroup could not be removed", path=path, error=str(error))

    async def _make_roots(self) -> None:
        async with self._lock:
            if self._roots_made:
                return
            await self._driver.make(root_cgroup(self._node), root_limits(self._node))
            await self._driver.make(qos_cgroup(BEST_EFFORT, self._node), qos_limits(0))
            self._roots_made = True

    async def _balance(self) -> None:
        """Weigh the Burstable pods together by what they ask for (CG-5)."""
        async with self._lock:
            limits = qos_limits(sum(self._weights.values()))
            if limits != self._burstable:
                await self._driver.make(qos_cgroup(BURSTABLE, self._node), limits)
                self._burstable = limits


def pod_cgroups(node: NodeContext) -> PodCgroups:
    """With the driver that the node's facts name."""
    tree = CgroupTree()
    driver = _Systemd(tree, Slices(v2=node.cgroup_v2)) if node.systemd_cgroups else _Files(tree)
    return PodCgroups(node, driver)
