"""A pod's host name and domain (HN-1 to HN-6)."""

from __future__ import annotations

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping.node import NodeContext

_LONGEST_LABEL = 63
_LONGEST_FQDN = 64


class HostnameError(ValueError):
    """The pod cannot have the name it asks for; no sandbox is made."""


def hostname_and_domain(pod: Pod, node: NodeContext) -> tuple[str, str]:
    """The short name, and the domain for the hosts file. Raises HostnameError."""
    spec = pod.spec
    if spec.hostname_override is not None:
        return _cut(spec.hostname_override, pod), ""
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{node.cluster_domain}" if spec.subdomain else ""
    return _cut(spec.hostname or pod.metadata.name, pod), domain


def sandbox_hostname(pod: Pod, node: NodeContext) -> str:
    """What CRI is told: empty with host network, the full name if the pod wants that (HN-1, HN-6)."""
    if pod.spec.host_network:
        return ""
    hostname, domain = hostname_and_domain(pod, node)
    if not (pod.spec.set_hostname_as_fqdn and domain):
        return hostname
    full = f"{hostname}.{domain}"
    if len(full) > _LONGEST_FQDN:
        raise HostnameError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
            f"({_LONGEST_FQDN} characters is the max, {len(full)} characters requested)"
        )
    return full


def _cut(hostname: str, pod: Pod) -> str:
    """HN-4."""
    if len(hostname) <= _LONGEST_LABEL:
        return hostname
    cut = hostname[:_LONGEST_LABEL].rstrip("-.")
    if not cut:
        raise HostnameError(f'hostname for pod "{pod.metadata.name}" was invalid: "{hostname}"')
    return cut
