"""The facts of the node that pods are made by, and what it offers: of configuration, runtime and host.

`daemon` asks for them once, when it has reached the runtime.
"""

from __future__ import annotations

import asyncio

import msgspec

from minikubelet.config import Config
from minikubelet.node import settings
from minikubelet.node.admission import Node
from minikubelet.node.offer import node_offer
from minikubelet.runtime.checks import RuntimeFacts
from minikubelet.runtime.host import node_context
from minikubelet.runtime.mapping import NodeContext


async def node_facts(config: Config, runtime: RuntimeFacts, *, sandbox_image: str) -> tuple[NodeContext, Node]:
    systemd = config.cgroup_driver == "systemd" if config.cgroup_driver else bool(runtime.systemd_cgroups)
    node = await asyncio.to_thread(
        node_context,
        node_name=config.node,
        root_dir=config.root_dir,
        log_dir=config.pod_logs_dir,
        systemd_cgroups=systemd,
        node_ip=config.node_ip,
        cgroup_root=config.cgroup_root,
        cluster_dns=config.cluster_dns,
        cluster_domain=config.cluster_domain,
        kept=settings.kept(reserved=(config.system_reserved, config.kube_reserved), thresholds=config.eviction_hard),
    )
    node = msgspec.structs.replace(
        node,
        cpu_cfs_quota=config.cpu_cfs_quota,
        cpu_cfs_period=round(config.cpu_cfs_quota_period * 1e6),
        pod_pids_limit=max(config.pod_pids_limit, 0),
        single_process_oom_kill=config.single_process_oom_kill,
        seccomp_default=config.seccomp_default,
        runtime_classes=config.runtime_classes,
        user_namespaces=runtime.user_namespaces,
        recursive_read_only=runtime.recursive_read_only,
        image_volumes=runtime.image_volumes,
        sandbox_image=sandbox_image,
    )
    offer = await asyncio.to_thread(
        node_offer,
        node,
        max_pods=config.max_pods,
        labels=config.node_labels,
        unsafe_sysctls=config.allowed_unsafe_sysctls,
        strict_groups=runtime.strict_groups,
    )
    return node, offer
