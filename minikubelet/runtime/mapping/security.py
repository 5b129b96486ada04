"""What a container may do and see. Pods cannot choose yet: Kubernetes' defaults (SB-10, SB-12, SC-2, SC-6, SC-8)."""

from __future__ import annotations

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.pb import cri_pb2

_MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

_RUNTIME_DEFAULT = cri_pb2.SecurityProfile(profile_type=cri_pb2.SecurityProfile.RuntimeDefault)
_UNCONFINED = cri_pb2.SecurityProfile(profile_type=cri_pb2.SecurityProfile.Unconfined)


def namespace_options(pod: Pod) -> cri_pb2.NamespaceOption:
    """SB-10."""
    spec = pod.spec
    pid = cri_pb2.NODE if spec.host_pid else cri_pb2.POD if spec.share_process_namespace else cri_pb2.CONTAINER
    return cri_pb2.NamespaceOption(
        network=cri_pb2.NODE if spec.host_network else cri_pb2.POD,
        ipc=cri_pb2.NODE if spec.host_ipc else cri_pb2.POD,
        pid=pid,
        userns_options=cri_pb2.UserNamespace(mode=cri_pb2.NODE),
    )


def sandbox_security(pod: Pod) -> cri_pb2.LinuxSandboxSecurityContext:
    """SB-12."""
    return cri_pb2.LinuxSandboxSecurityContext(namespace_options=namespace_options(pod), seccomp=_RUNTIME_DEFAULT)


def container_security(
    pod: Pod, node: NodeContext, *, image_uid: int | None, image_user: str
) -> cri_pb2.LinuxContainerSecurityContext:
    """The image's user (SC-2), and everything else at its default."""
    security = cri_pb2.LinuxContainerSecurityContext(
        namespace_options=namespace_options(pod),
        seccomp=_RUNTIME_DEFAULT if node.seccomp_default else _UNCONFINED,
        masked_paths=[*_MASKED, *node.thermal_throttle_paths],
        readonly_paths=_READ_ONLY,
    )
    if image_uid is None and image_user:
        security.run_as_username = image_user
    else:
        security.run_as_user.value = image_uid or 0
    return security
