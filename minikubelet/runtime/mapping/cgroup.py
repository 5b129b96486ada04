"""The cgroups of pods: where they are, and what each is held to (CG-2, CG-4 to CG-6).

`pods/cgroups/` makes them so; the sandbox tells the runtime where to put its containers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from minikubelet.api.effective import effective_limits, effective_requests, is_limited
from minikubelet.api.pod import Pod
from minikubelet.api.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.mapping.resources import huge_pages, milli_cpu, quota, shares, whole_bytes

UNLIMITED = -1


class CgroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a cgroup as a whole may use. None: nothing is said of it."""

    cpu_shares: int
    #: Microseconds of each period; UNLIMITED: as much as there is.
    cpu_quota: int | None = None
    cpu_period: int | None = None
    #: Bytes.
    memory: int | None = None
    #: Processes and threads.
    pids: int | None = None
    #: Bytes by size of page, as the kernel writes it: 2MB.
    huge_pages: Mapping[str, int] = {}


def root_cgroup(node: NodeContext) -> str:
    """That of all pods together."""
    return _path([], node)


def qos_cgroup(qos: str, node: NodeContext) -> str:
    """That of a class of pods; Guaranteed ones have none between theirs and the root."""
    return _path([] if qos == GUARANTEED else [qos.lower()], node)


def cgroup_parent(pod: Pod, node: NodeContext) -> str:
    """The pod's own, the parent of its containers': what is sent as `cgroup_parent`.

    For systemd it is a path of slices, each with its full name; containerd uses the last.
    """
    qos = qos_class(pod.spec)
    return _path([*([] if qos == GUARANTEED else [qos.lower()]), f"pod{pod.metadata.uid}"], node)


def root_limits(node: NodeContext) -> CgroupLimits:
    """CG-4."""
    for_pods = node.resources.for_pods
    return CgroupLimits(cpu_shares=shares(milli_cpu(for_pods)), memory=whole_bytes(for_pods) or None)


def weight_in_class(pod: Pod) -> int:
    """What a pod adds to the weight of its class, in thousandths of a core (CG-5); only Burstable ones add any."""
    if qos_class(pod.spec) != BURSTABLE:
        return 0
    return milli_cpu(effective_requests(pod.spec, overhead=True))


def qos_limits(total: int) -> CgroupLimits:
    """CG-5: of a class's pods together, which weigh `total`; 0 for BestEffort."""
    return CgroupLimits(cpu_shares=shares(total))


def pod_limits(pod: Pod, node: NodeContext) -> CgroupLimits:
    """CG-6."""
    spec, qos = pod.spec, qos_class(pod.spec)
    requests, limits = effective_requests(spec, overhead=True), effective_limits(spec, overhead=True)
    period, cpu, memory = node.cpu_cfs_period, None, None
    if qos == GUARANTEED or (qos == BURSTABLE and is_limited(spec, "cpu")):
        cpu = quota(milli_cpu(limits), period) if node.cpu_cfs_quota else UNLIMITED
    if qos == GUARANTEED or (qos == BURSTABLE and is_limited(spec, "memory")):
        memory = whole_bytes(limits)
    return CgroupLimits(
        cpu_shares=shares(0 if qos == BEST_EFFORT else milli_cpu(requests)),
        cpu_quota=cpu,
        cpu_period=None if cpu is None else period,
        memory=memory,
        pids=node.pod_pids_limit or None,
        huge_pages={size: whole_bytes(requests, huge_pages(size)) for size in node.hugepage_sizes},
    )


def _path(below: list[str], node: NodeContext) -> str:
    parts = [part for part in node.cgroup_root.split("/") if part] + ["kubepods", *below]
    if not node.systemd_cgroups:
        return "/" + "/".join(parts)
    # systemd derives a slice's parents from the dashes of its name, so dashes of our own have to go.
    parts = [part.replace("-", "_") for part in parts]
    return "/" + "/".join("-".join(parts[: i + 1]) + ".slice" for i in range(len(parts)))
