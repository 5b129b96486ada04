"""CPU, memory and the like, from Kubernetes' quantities to the kernel's numbers (LR-1 to LR-8, SB-14)."""

from __future__ import annotations

from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.effective import (
    HUGE_PAGES,
    Amounts,
    amounts_of,
    container_requests,
    effective_limits,
    effective_requests,
)
from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.api.priority import NODE_CRITICAL
from minikubelet.api.qos import BEST_EFFORT, GUARANTEED, qos_class
from minikubelet.runtime.mapping.node import NodeContext, SwapControl
from minikubelet.runtime.pb import cri_pb2

_MIN_SHARES, _MAX_SHARES = 2, 262_144
_MIN_QUOTA = 1000
_SAFEST, _LEAST_SAFE = -997, 1000
_ZERO = Fraction()


def shares(milli_cpu: int) -> int:
    """LR-1."""
    return min(_MAX_SHARES, max(_MIN_SHARES, milli_cpu * 1024 // 1000)) if milli_cpu else _MIN_SHARES


def quota(milli_cpu: int, period: int) -> int:
    """LR-2, in microseconds of each period; 0 is unlimited."""
    return max(_MIN_QUOTA, milli_cpu * period // 1000) if milli_cpu else 0


def milli_cpu(amounts: Amounts) -> int:
    """Of the cpu among them, rounded up."""
    return _ceil(amounts.get("cpu", _ZERO) * 1000)


def whole_bytes(amounts: Amounts, resource: str = "memory") -> int:
    return _ceil(amounts.get(resource, _ZERO))


def container_resources(pod: Pod, container: Container, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    """LR-3 to LR-8. A limit that the container lacks and the pod as a whole has counts for the container as well."""
    requests, limits = container.resources.requests, _limits(pod, container)
    cpu = requests.get("cpu", limits.get("cpu", "0"))
    memory_limit = quantity.whole(limits.get("memory", "0"))
    resources = cri_pb2.LinuxContainerResources(
        cpu_shares=shares(quantity.milli(cpu)),
        memory_limit_in_bytes=memory_limit,
        oom_score_adj=oom_score_adj(pod, container, node),
        hugepage_limits=[
            cri_pb2.HugepageLimit(page_size=size, limit=quantity.whole(limits.get(huge_pages(size), "0")))
            for size in node.hugepage_sizes
        ],
    )
    if node.cpu_cfs_quota:
        resources.cpu_period = node.cpu_cfs_period
        resources.cpu_quota = quota(quantity.milli(limits.get("cpu", "0")), node.cpu_cfs_period)
    if node.swap_control is SwapControl.MEMSW:
        resources.memory_swap_limit_in_bytes = memory_limit
    if node.cgroup_v2:
        if not node.single_process_oom_kill:
            resources.unified["memory.oom.group"] = "1"
        if node.swap_control is SwapControl.SWAP_MAX:
            resources.unified["memory.swap.max"] = "0"
    return resources


def sandbox_resources(pod: Pod, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    """What the pod as a whole may use, for the runtime's information (SB-14)."""
    requests, limits = effective_requests(pod.spec, overhead=False), effective_limits(pod.spec, overhead=False)
    return _linux(requests, limits, node)


def sandbox_overhead(pod: Pod, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    """What the runtime itself may use beside the containers (SB-14); empty if nothing is said of it."""
    overhead = amounts_of(pod.spec.overhead)
    return _linux(overhead, overhead, node) if overhead else cri_pb2.LinuxContainerResources()


def _linux(requests: Amounts, limits: Amounts, node: NodeContext) -> cri_pb2.LinuxContainerResources:
    resources = cri_pb2.LinuxContainerResources(
        cpu_shares=shares(milli_cpu(requests)), memory_limit_in_bytes=whole_bytes(limits)
    )
    if node.cpu_cfs_quota:
        resources.cpu_period = node.cpu_cfs_period
        resources.cpu_quota = quota(milli_cpu(limits), node.cpu_cfs_period)
    return resources


def oom_score_adj(pod: Pod, container: Container, node: NodeContext) -> int:
    """Whom the kernel kills first when memory is short (LR-8): a sidecar never before the mains it serves."""
    qos = qos_class(pod.spec)
    if pod.spec.priority_class_name == NODE_CRITICAL or qos == GUARANTEED:
        return _SAFEST
    if qos == BEST_EFFORT:
        return _LEAST_SAFE
    more = _share_of_the_rest(pod)
    score = _share_of_memory(_memory(container) + more, node)
    if container in pod.spec.init_containers and is_sidecar(container):
        least = min(_memory(main) for main in pod.spec.containers)
        score = min(score, _share_of_memory(least + more, node))
    return min(max(score, 3), 999)


def huge_pages(size: str) -> str:
    """The resource's name: `2MB`, as the kernel calls it, is `hugepages-2Mi` in a manifest."""
    return f"{HUGE_PAGES}{size[:-1]}i"


def _limits(pod: Pod, container: Container) -> dict[str, str]:
    limits = container.resources.limits
    if pod.spec.resources is None:
        return limits
    stand_in = {name: text for name, text in pod.spec.resources.limits.items() if name in ("cpu", "memory")}
    return {**stand_in, **{name: text for name, text in limits.items() if name not in stand_in or quantity.parse(text)}}


def _share_of_the_rest(pod: Pod) -> int:
    """What the pod as a whole asks for beyond its containers, for each of them (LR-8), in bytes."""
    spec = pod.spec
    if spec.resources is None or "memory" not in spec.resources.requests:
        return 0
    rest = quantity.whole(spec.resources.requests["memory"]) - whole_bytes(container_requests(spec))
    return max(rest, 0) // (len(spec.containers) + len(spec.init_containers))


def _share_of_memory(request: int, node: NodeContext) -> int:
    return _LEAST_SAFE - _LEAST_SAFE * request // node.memory_capacity


def _memory(container: Container) -> int:
    return quantity.whole(container.resources.requests.get("memory", "0"))


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
