"""Security contexts of pods and containers: who the processes are and what the kernel lets them do."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int64, Object, Raw
from minikubelet.api.support import refused

WINDOWS = refused("windows options cannot be set for a linux pod: leave it out")


class SELinuxOptions(Object):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(Object):
    type: str
    localhost_profile: str | None = None


class AppArmorProfile(Object):
    type: str
    localhost_profile: str | None = None


class Capabilities(Object):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class Sysctl(Object):
    name: str
    value: str


class SecurityContext(Object):
    """Of one container; its fields win over the pod's (SC-1)."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: Annotated[Raw, WINDOWS] = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class PodSecurityContext(Object):
    se_linux_options: SELinuxOptions | None = None
    windows_options: Annotated[Raw, WINDOWS] = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    supplemental_groups_policy: str | None = None
    fs_group: Int64 | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None
