"""What is given back when a pod has ended, and when it is gone for good (VO-14, GC-3, CG-7)."""

from __future__ import annotations

from minikubelet.api.pod import Pod
from minikubelet.pods.logs import remove_pod_logs
from minikubelet.pods.services import Services


async def release_pod(pod: Pod, services: Services) -> None:
    """All containers have stopped: volumes and the cgroup go; logs and records stay while the manifest does."""
    await services.volumes.teardown(pod.metadata.uid)
    await services.cgroups.remove(pod)


async def clean_up_pod(pod: Pod, services: Services) -> None:
    """Nothing of the pod is in the runtime any more: the rest of it goes too."""
    await release_pod(pod, services)
    await services.volumes.remove_pod_dir(pod.metadata.uid)
    await remove_pod_logs(pod, services.node)
