"""A pod's /etc/hosts, written anew at every container creation (MT-4, MT-5)."""

from __future__ import annotations

from collections.abc import Sequence

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping.hostname import hostname_and_domain
from minikubelet.runtime.mapping.node import NodeContext

_HEAD = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hosts_file(pod: Pod, node: NodeContext, *, pod_ips: Sequence[str], node_hosts: str) -> str:
    """The content; `node_hosts` is the host's own /etc/hosts, used with host network only. Raises HostnameError."""
    if pod.spec.host_network:
        text = f"# Kubernetes-managed hosts file (host network).\n{node_hosts}"
    else:
        hostname, domain = hostname_and_domain(pod, node)
        names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
        text = _HEAD + "".join(f"{ip}\t{names}\n" for ip in pod_ips)
    if pod.spec.host_aliases:
        text += "\n# Entries added by HostAliases.\n"
        text += "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in pod.spec.host_aliases)
    return text
