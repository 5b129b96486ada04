"""CPU, memory and the like, from Kubernetes' quantities to the kernel's numbers (LR-1 to LR-8, SB-14)."""

from __future__ import annotations

from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.effective import effective_limits, effective_requests
from minikubelet.api.pod import Container, Pod
from minikubelet.api.qos import BEST_EFFORT, GUARANTEED, qos_class
from minikubelet.runtime.mapping.node import NodeContext, SwapControl
from minikubelet.runtime.pb import cri_pb2

_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MIN_QUOTA = 1000


def shares(milli_cpu: int) -> int:
    """LR-1."""
    return min(_MAX_SHARES, max(_MIN_SHARES, milli_cpu * 1024 // 1000)) if milli_cpu else _MIN_SHARES


def quota(milli_cpu: int, period: int) -> int:
    """LR-2, in microseconds of each period; 0 is unlimited."""
    return max(_MIN_QUOTA, milli_cpu * period // 1000) if milli_cpu else 0


def container_resources(pod: Pod, container: Container, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    """LR-3 to LR-8."""
    requests, limits = container.resources.requests, container.resources.limits
    cpu = requests.get("cpu", limits.get("cpu", "0"))
    memory_limit = quantity.whole(limits.get("memory", "0"))
    resources = cri_pb2.LinuxContainerResources(
        cpu_shares=shares(quantity.milli(cpu)),
        memory_limit_in_bytes=memory_limit,
        oom_score_adj=oom_score_adj(pod, container, node),
        hugepage_limits=[
            cri_pb2.HugepageLimit(page_size=size, limit=quantity.whole(limits.get(_hugepages_key(size), "0")))
            for size in node.hugepage_sizes
        ],
    )
    if node.cpu_cfs_quota:
        resources.cpu_period = node.cpu_cfs_period
        resources.cpu_quota = quota(quantity.milli(limits.get("cpu", "0")), node.cpu_cfs_period)
    if node.swap_control is SwapControl.MEMSW:
        resources.memory_swap_limit_in_bytes = memory_limit
    if node.cgroup_v2:
        resources.unified["memory.oom.group"] = "1"
        if node.swap_control is SwapControl.SWAP_MAX:
            resources.unified["memory.swap.max"] = "0"
    return resources


def sandbox_resources(pod: Pod, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    """What the pod as a whole may use, for the runtime's information (SB-14)."""
    requests, limits = effective_requests(pod.spec), effective_limits(pod.spec)
    zero = Fraction()
    resources = cri_pb2.LinuxContainerResources(
        cpu_shares=shares(_ceil(requests.get("cpu", zero) * 1000)),
        memory_limit_in_bytes=_ceil(limits.get("memory", zero)),
    )
    if node.cpu_cfs_quota:
        resources.cpu_period = node.cpu_cfs_period
        resources.cpu_quota = quota(_ceil(limits.get("cpu", zero) * 1000), node.cpu_cfs_period)
    return resources


def oom_score_adj(pod: Pod, container: Container, node: NodeContext) -> int:
    """Whom the kernel kills first when memory is short (LR-8): a sidecar never before the mains it serves."""
    qos = qos_class(pod.spec)
    if qos == GUARANTEED:
        return -997
    if qos == BEST_EFFORT:
        return 1000
    score = _share_of_memory(_memory(container), node)
    if container.restart_policy == "Always" and container in pod.spec.init_containers:
        least = min(_memory(main) for main in pod.spec.containers)
        score = min(score, _share_of_memory(least, node))
    return min(max(score, 3), 999)


def _share_of_memory(request: int, node: NodeContext) -> int:
    return 1000 - 1000 * request // node.memory_capacity


def _memory(container: Container) -> int:
    return quantity.whole(container.resources.requests.get("memory", "0"))


def _hugepages_key(size: str) -> str:
    """`2MB` is `hugepages-2Mi` in a manifest."""
    return f"hugepages-{size[:-1]}i"


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
