"""What a container may do and see: users, capabilities, profiles, namespaces (SB-10 to SB-13, SC-1 to SC-9)."""

from __future__ import annotations

from minikubelet.api.app_armor import ANNOTATION_PREFIX, profile_of_annotation
from minikubelet.api.pod import Container, Pod
from minikubelet.api.security import (
    AppArmorProfile,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.mapping.users import Runner, namespace_of_users, runner
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
_NO_CONTEXT, _NO_POD_CONTEXT = SecurityContext(), PodSecurityContext()


def namespace_options(pod: Pod, *, first_id: int | None) -> cri_pb2.NamespaceOption:
    """SB-10, SB-11. `first_id`: where on the host the pod's own range of user ids begins; None: it has none."""
    spec = pod.spec
    pid = cri_pb2.NODE if spec.host_pid else cri_pb2.POD if spec.share_process_namespace else cri_pb2.CONTAINER
    return cri_pb2.NamespaceOption(
        network=cri_pb2.NODE if spec.host_network else cri_pb2.POD,
        ipc=cri_pb2.NODE if spec.host_ipc else cri_pb2.POD,
        pid=pid,
        userns_options=namespace_of_users(pod, first_id),
    )


def sandbox_security(pod: Pod, *, first_id: int | None = None) -> cri_pb2.LinuxSandboxSecurityContext:
    """SB-12. A group is sent only beside a user: alone containerd refuses it, and the sandbox has no use for it."""
    context = pod.spec.security_context or _NO_POD_CONTEXT
    security = cri_pb2.LinuxSandboxSecurityContext(
        namespace_options=namespace_options(pod, first_id=first_id),
        privileged=any(
            container.security_context and container.security_context.privileged
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        ),
        seccomp=_RUNTIME_DEFAULT,
        supplemental_groups=_groups(context),
        supplemental_groups_policy=_groups_policy(context),
        selinux_options=_se_linux(context.se_linux_options),
    )
    if context.run_as_user is not None:
        security.run_as_user.value = context.run_as_user
        if context.run_as_group is not None:
            security.run_as_group.value = context.run_as_group
    return security


def sandbox_sysctls(pod: Pod) -> dict[str, str]:
    """SB-13."""
    context = pod.spec.security_context or _NO_POD_CONTEXT
    return {sysctl.name: sysctl.value for sysctl in context.sysctls}


def container_security(
    pod: Pod,
    container: Container,
    node: NodeContext,
    *,
    image_uid: int | None,
    image_user: str,
    first_id: int | None = None,
) -> cri_pb2.LinuxContainerSecurityContext:
    """The container's own context over the pod's, over the image's user (SC-1, SC-2).

    Raises NonRootError: it must not run as root, and does or may (SC-3).
    """
    own, common = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    user = runner(pod, container, image_uid=image_uid, image_user=image_user)
    unmasked = own.proc_mount == "Unmasked"
    security = cri_pb2.LinuxContainerSecurityContext(
        namespace_options=namespace_options(pod, first_id=first_id),
        privileged=bool(own.privileged),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        no_new_privs=own.allow_privilege_escalation is False,
        supplemental_groups=_groups(common),
        supplemental_groups_policy=_groups_policy(common),
        selinux_options=_se_linux(own.se_linux_options or common.se_linux_options),
        seccomp=_seccomp(own.seccomp_profile or common.seccomp_profile, node),
        masked_paths=() if unmasked else (*_MASKED, *node.thermal_throttle_paths),
        readonly_paths=() if unmasked else _READ_ONLY,
    )
    if own.capabilities is not None:
        security.capabilities.add_capabilities.extend(own.capabilities.add)
        security.capabilities.drop_capabilities.extend(own.capabilities.drop)
    _set_user(security, user)
    if (profile := _app_armor(pod, own, common, container.name)) is not None:
        security.apparmor.CopyFrom(_app_armor_message(profile))
        security.apparmor_profile = _app_armor_text(profile)
    return security


def _set_user(security: cri_pb2.LinuxContainerSecurityContext, user: Runner) -> None:
    if user.uid is not None:
        security.run_as_user.value = user.uid
    else:
        security.run_as_username = user.name
    if user.gid is not None:
        security.run_as_group.value = user.gid


def _groups(context: PodSecurityContext) -> tuple[int, ...]:
    """SC-5: fsGroup comes first."""
    return (*([] if context.fs_group is None else [context.fs_group]), *context.supplemental_groups)


def _groups_policy(context: PodSecurityContext) -> cri_pb2.SupplementalGroupsPolicy.ValueType:
    return cri_pb2.Strict if context.supplemental_groups_policy == "Strict" else cri_pb2.Merge


def _se_linux(options: SELinuxOptions | None) -> cri_pb2.SELinuxOption | None:
    if options is None:
        return None
    return cri_pb2.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _seccomp(profile: SeccompProfile | None, node: NodeContext) -> cri_pb2.SecurityProfile:
    """SC-6. Localhost profiles are files below the daemon's own folder."""
    kinds = cri_pb2.SecurityProfile
    if profile is None:
        profile = SeccompProfile(type="RuntimeDefault" if node.seccomp_default else "Unconfined")
    if profile.type == "Localhost":
        path = node.root_dir / "seccomp" / (profile.localhost_profile or "")
        return cri_pb2.SecurityProfile(profile_type=kinds.Localhost, localhost_ref=str(path))
    return cri_pb2.SecurityProfile(profile_type=kinds.ProfileType.Value(profile.type))


def _app_armor(pod: Pod, own: SecurityContext, common: PodSecurityContext, container: str) -> AppArmorProfile | None:
    """SC-7: the container's field, its annotation, the pod's field."""
    if own.app_armor_profile is not None:
        return own.app_armor_profile
    noted = profile_of_annotation(pod.metadata.annotations.get(f"{ANNOTATION_PREFIX}{container}", ""))
    return noted or common.app_armor_profile


def _app_armor_message(profile: AppArmorProfile) -> cri_pb2.SecurityProfile:
    kind = cri_pb2.SecurityProfile.ProfileType.Value(profile.type)
    return cri_pb2.SecurityProfile(profile_type=kind, localhost_ref=profile.localhost_profile or "")


def _app_armor_text(profile: AppArmorProfile) -> str:
    """As older runtimes read it."""
    names = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}
    return names.get(profile.type) or f"localhost/{profile.localhost_profile}"
