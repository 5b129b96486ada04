"""What is given back when a pod has ended, and when it is gone for good (VO-14, GC-3, CG-7)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from minikubelet.api.pod import Pod
from minikubelet.pods.cgroups import remove_pod_cgroup
from minikubelet.pods.services import Services
from minikubelet.runtime.mapping import cgroup_parent, log_directory


async def release_pod(pod: Pod, services: Services) -> None:
    """All containers have stopped: volumes and the cgroup go; logs and records stay while the manifest does."""
    await services.volumes.teardown(pod.metadata.uid)
    await remove_pod_cgroup(cgroup_parent(pod, services.node))


async def clean_up_pod(pod: Pod, services: Services) -> None:
    """Nothing of the pod is in the runtime any more: the rest of it goes too."""
    await release_pod(pod, services)
    await services.volumes.remove_pod_dir(pod.metadata.uid)
    await asyncio.to_thread(_remove_logs, Path(log_directory(pod, services.node)))


def _remove_logs(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
