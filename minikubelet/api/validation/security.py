"""Checks of security contexts, host namespaces and kernel settings (VA-1). Called by `pods` and `containers`."""

from __future__ import annotations

import re

import msgspec

from minikubelet.api.app_armor import ANNOTATION_PREFIX, profile_of_annotation
from minikubelet.api.container import Container
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import PodSpec
from minikubelet.api.problems import Problem, Problems, duplicate, forbidden, invalid, required, too_long, unsupported
from minikubelet.api.security import AppArmorProfile, SeccompProfile, SecurityContext, Sysctl
from minikubelet.api.sysctls import Namespace, namespace_of

HIGHEST_ID = 2**31 - 1
LONGEST_SYSCTL = 253
LONGEST_PROFILE = 4095

_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_container_security(context: SecurityContext | None, path: str, *, host_users: bool) -> Problems:
    """`path` is that of the security context; `host_users`: the pod has the host's user namespace."""
    if context is None:
        return
    yield from _identifier(context.run_as_user, f"{path}.runAsUser")
    yield from _identifier(context.run_as_group, f"{path}.runAsGroup")
    if context.proc_mount is not None:
        if context.proc_mount not in ("Default", "Unmasked"):
            yield unsupported(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
        if host_users and context.proc_mount == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(f"{path}.procMount", context.proc_mount, detail)
    yield from _seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    if context.allow_privilege_escalation is False:
        shown = msgspec.to_builtins(context)
        if context.privileged:
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, shown, detail)
        if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, shown, detail)
    yield from _app_armor(context.app_armor_profile, f"{path}.appArmorProfile")


def validate_pod_security(spec: PodSpec) -> Problems:
    path, context = "spec.securityContext", spec.security_context
    if context is not None:
        yield from _identifier(context.fs_group, f"{path}.fsGroup")
        yield from _identifier(context.run_as_user, f"{path}.runAsUser")
        yield from _identifier(context.run_as_group, f"{path}.runAsGroup")
        for index, group in enumerate(context.supplemental_groups):
            yield from _identifier(group, f"{path}.supplementalGroups[{index}]")
    if spec.share_process_namespace and spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield Problem(
            f"{path}.shareProcessNamespace", f"Invalid value: true: {detail}", place="spec.shareProcessNamespace"
        )
    if context is None:
        return
    yield from _sysctls(context.sysctls, f"{path}.sysctls", spec)
    policies = ("Always", "OnRootMismatch")
    if context.fs_group_change_policy is not None and context.fs_group_change_policy not in policies:
        yield unsupported(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, policies)
    yield from _seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    yield from _app_armor(context.app_armor_profile, f"{path}.appArmorProfile")
    policies = ("Merge", "Strict")
    if context.supplemental_groups_policy is not None and context.supplemental_groups_policy not in policies:
        yield unsupported(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, policies)
    policies = ("MountOption", "Recursive")
    if context.se_linux_change_policy is not None and context.se_linux_change_policy not in policies:
        yield unsupported(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, policies)


def validate_host_users(spec: PodSpec) -> Problems:
    """A user namespace of its own does not go with the host's other namespaces."""
    if spec.host_users:
        return
    chosen = {"hostNetwork": spec.host_network, "HostPID": spec.host_pid, "HostIPC": spec.host_ipc}
    for name, value in chosen.items():
        if value:
            place = f"spec.{name[0].lower()}{name[1:]}"
            yield Problem(f"spec.{name}", "Forbidden: when `hostUsers` is false", place=place)


def validate_app_armor_annotations(metadata: ObjectMeta, spec: PodSpec) -> Problems:
    """The profiles' old place: `container.apparmor.security.beta.kubernetes.io/CONTAINER` (SC-7)."""
    names = {container.name for container in (*spec.containers, *spec.init_containers)}
    for key, value in metadata.annotations.items():
        if key.startswith(ANNOTATION_PREFIX):
            place, name = f"metadata.annotations[{key}]", key.removeprefix(ANNOTATION_PREFIX)
            if name not in names:
                yield invalid(place, name, "container not found")
            if value and profile_of_annotation(value) is None:
                yield invalid(place, value, f'invalid AppArmor profile name: "{value}"')


def validate_app_armor_agreement(metadata: ObjectMeta, spec: PodSpec) -> Problems:
    """Where annotation and field both name a profile, they have to name the same."""
    for place, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            field, old = _profile(container, spec), metadata.annotations.get(f"{ANNOTATION_PREFIX}{container.name}")
            if field is None or not old:
                continue
            path = f"spec.{place}[{index}].securityContext.appArmorProfile"
            noted = profile_of_annotation(old)
            if noted is None or noted.type != field.type:
                yield forbidden(f"{path}.type", "apparmor type in annotation and field must match")
            elif noted != field:
                yield forbidden(f"{path}.localhostProfile", "apparmor profile in annotation and field must match")


def _profile(container: Container, spec: PodSpec) -> AppArmorProfile | None:
    own = container.security_context and container.security_context.app_armor_profile
    return own or (spec.security_context and spec.security_context.app_armor_profile) or None


def _identifier(number: int | None, path: str) -> Problems:
    if number is not None and not 0 <= number <= HIGHEST_ID:
        yield invalid(path, number, f"must be between 0 and {HIGHEST_ID}, inclusive")


def _seccomp(profile: SeccompProfile | None, path: str) -> Problems:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif profile.type not in _PROFILE_TYPES:
        yield unsupported(f"{path}.type", profile.type, _PROFILE_TYPES)
    path = f"{path}.localhostProfile"
    if profile.type != "Localhost":
        if profile.localhost_profile is not None:
            yield invalid(path, msgspec.to_builtins(profile), "can only be set when seccomp type is Localhost")
    elif profile.localhost_profile is None:
        yield required(path, "must be set when seccomp type is Localhost")
    else:
        if profile.localhost_profile.startswith("/"):
            yield invalid(path, profile.localhost_profile, "must be a relative path")
        if ".." in profile.localhost_profile.split("/"):
            yield invalid(path, profile.localhost_profile, "must not contain '..'")


def _app_armor(profile: AppArmorProfile | None, path: str) -> Problems:
    if profile is None:
        return
    name, place = profile.localhost_profile, f"{path}.localhostProfile"
    if not profile.type:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif profile.type not in _PROFILE_TYPES:
        yield unsupported(f"{path}.type", profile.type, _PROFILE_TYPES)
    elif profile.type != "Localhost":
        if name is not None:
            yield invalid(place, name, "can only be set when AppArmor type is Localhost")
    elif not name:
        yield required(place, "must be set when AppArmor type is Localhost")
    else:
        if name != name.strip():
            yield invalid(place, name, "must not be padded with whitespace")
        if len(name.encode()) > LONGEST_PROFILE:
            yield too_long(place, LONGEST_PROFILE)


def _sysctls(sysctls: tuple[Sysctl, ...], path: str, spec: PodSpec) -> Problems:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, place = sysctl.name, f"{path}[{index}].name"
        if not name:
            yield required(place)
        elif len(name) > LONGEST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            yield invalid(place, name, f"must have at most {LONGEST_SYSCTL} characters and match regex {_SYSCTL}")
        elif name in seen:
            yield duplicate(place, name)
        seen.add(name)
        namespace = namespace_of(name)
        if spec.host_network and namespace is Namespace.NET:
            yield invalid(place, name, "may not be specified when 'hostNetwork' is true")
        elif spec.host_ipc and namespace is Namespace.IPC:
            yield invalid(place, name, "may not be specified when 'hostIPC' is true")
