"""What /pods shows of a pod beyond its own status: where it runs, and that it is being removed.

Used by `worker.py` with each change, and by `manager.py` for pods that have no worker yet.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.api.status import HostIP, PodIP, PodStatus
from minikubelet.lifecycle.memory import Memory, StopCause
from minikubelet.pods.mount_status import with_mounts
from minikubelet.pods.times import rfc3339


def shown(
    pod: Pod, memory: Memory, *, status: PodStatus | None, node_ip: str, recursive_read_only: bool = False
) -> Pod:
    """The pod with `status`, its host's address, and its deletion while it is being removed (README 7, 10).

    `recursive_read_only`: the runtime can make mounts read-only all the way down.
    """
    metadata, stopping = pod.metadata, memory.stopping
    if stopping is not None and stopping.cause is StopCause.REMOVED:
        metadata = msgspec.structs.replace(
            metadata,
            deletion_timestamp=rfc3339(stopping.began + stopping.grace),
            deletion_grace_period_seconds=stopping.grace,
        )
    status = with_mounts(pod, _with_host(pod, status, node_ip), recursive=recursive_read_only)
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


def waiting(pod: Pod, before: Pod | None, *, status: PodStatus, now: float) -> Pod:
    """A pod that has not begun, with `status`, which says what it waits for (README 7).

    `before`: as it has been shown up to now; it keeps the time at which it was first seen.
    """
    seen = before.metadata.creation_timestamp if before is not None else None
    metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=seen or rfc3339(now))
    return msgspec.structs.replace(pod, metadata=metadata, status=status)


def _with_host(pod: Pod, status: PodStatus | None, node_ip: str) -> PodStatus:
    status = status or PodStatus(phase="Pending")
    if not node_ip or status.start_time is None:
        return status
    status = msgspec.structs.replace(status, host_ip=node_ip, host_ips=(HostIP(ip=node_ip),))
    if pod.spec.host_network and not status.pod_ip and status.phase not in ("Succeeded", "Failed"):
        status = msgspec.structs.replace(status, pod_ip=node_ip, pod_ips=(PodIP(ip=node_ip),))
    return status
