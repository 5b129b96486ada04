"""A Pod as CRI's PodSandboxConfig (SB-1 to SB-14)."""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.mapping.cgroup import cgroup_parent
from minikubelet.runtime.mapping.dns import Warned, dns_config
from minikubelet.runtime.mapping.hostname import sandbox_hostname
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.mapping.paths import log_directory
from minikubelet.runtime.mapping.ports import port_mappings
from minikubelet.runtime.mapping.resources import sandbox_overhead, sandbox_resources
from minikubelet.runtime.mapping.security import sandbox_security, sandbox_sysctls
from minikubelet.runtime.pb import cri_pb2


def sandbox_config(
    pod: Pod, node: NodeContext, *, attempt: int, resolv_conf: str | None, first_id: int | None = None
) -> tuple[cri_pb2.PodSandboxConfig, list[Warned]]:
    """The message, and what is to be told as events. `resolv_conf`: see `dns_config`; `first_id`: `namespace_options`.

    Raises HostnameError, DNSError or UserNamespaceError: no sandbox is possible as things are; the text says why.
    """
    meta = pod.metadata
    dns, warned = dns_config(pod, node, resolv_conf=resolv_conf)
    config = cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=meta.name, uid=meta.uid, namespace=meta.namespace, attempt=attempt),
        hostname=sandbox_hostname(pod, node),
        log_directory=log_directory(pod, node),
        dns_config=dns,
        port_mappings=port_mappings(pod),
        labels=meta.labels | labels.pod_labels(pod),
        annotations=meta.annotations | {labels.OWNER: str(node.root_dir), labels.POD: carried(pod)},
        linux=cri_pb2.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent(pod, node),
            security_context=sandbox_security(pod, first_id=first_id),
            sysctls=sandbox_sysctls(pod),
            resources=sandbox_resources(pod, node),
            overhead=sandbox_overhead(pod, node),
        ),
    )
    return config, warned


def carried(pod: Pod) -> str:
    """The pod as the sandbox carries it: without its status."""
    return msgspec.json.encode(msgspec.structs.replace(pod, status=None)).decode()
