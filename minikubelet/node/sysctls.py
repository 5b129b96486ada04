"""Which kernel settings a pod may set for itself (AD-7): safe ones, and those that the configuration adds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from minikubelet.api.pod import Pod
from minikubelet.api.sysctls import Namespace, namespace_of, normalized
from minikubelet.pods.admission import Refusal

#: Safe ones, and the version of the kernel that has made each a pod's own.
_SAFE = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}


def allowed_sysctls(configured: Iterable[str], *, kernel: tuple[int, int]) -> frozenset[str]:
    """Names, and beginnings that end in `*`. `kernel`: its version."""
    return frozenset({name for name, since in _SAFE.items() if kernel >= since} | set(configured))


def sysctl_refusal(pod: Pod, allowed: AbstractSet[str]) -> Refusal | None:
    context = pod.spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = normalized(sysctl.name)
        if not _is_allowed(name, allowed):
            return _forbidden(name, "not allowlisted")
        if namespace_of(name) is Namespace.NET and pod.spec.host_network:
            return _forbidden(name, "not allowed with host Net enabled")
        if namespace_of(name) is Namespace.IPC and pod.spec.host_ipc:
            return _forbidden(name, "not allowed with host IPC enabled")
    return None


def _is_allowed(name: str, allowed: AbstractSet[str]) -> bool:
    beginnings = tuple(pattern.removesuffix("*") for pattern in allowed if pattern.endswith("*"))
    return name in allowed or name.startswith(beginnings)


def _forbidden(name: str, why: str) -> Refusal:
    return Refusal(reason="SysctlForbidden", message=f'forbidden sysctl: "{name}" {why}')
