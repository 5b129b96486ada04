"""The facts of this node that the mapping needs; found out once at start (`runtime/host.py`, `runtime/checks.py`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import msgspec


class SwapControl(enum.Enum):
    """How the kernel lets containers be kept from swapping (LR-5)."""

    NONE = "none"
    MEMSW = "memory.memsw.limit_in_bytes"  # cgroup v1
    SWAP_MAX = "memory.swap.max"  # cgroup v2


class NodeContext(msgspec.Struct, frozen=True, kw_only=True):
    node_name: str
    #: Empty while the node has no address.
    node_ip: str
    #: The daemon's own folder, and the mark of what it owns in the runtime (D-7).
    root_dir: Path
    #: Pod logs, e.g. /var/log/pods.
    log_dir: Path
    #: MemTotal in bytes.
    memory_capacity: int
    #: What the node has for pods: cpu in cores, memory and ephemeral-storage in bytes; stands in for limits (EV-6).
    allocatable: Mapping[str, Fraction] = {}
    systemd_cgroups: bool
    cgroup_root: str = ""
    cgroup_v2: bool = False
    swap_control: SwapControl = SwapControl.NONE
    #: As the kernel counts them, e.g. ("2MB", "1GB").
    hugepage_sizes: tuple[str, ...] = ()
    #: Existing /sys/devices/system/cpu/cpu*/thermal_throttle (SC-8).
    thermal_throttle_paths: tuple[str, ...] = ()
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    cpu_cfs_quota: bool = True
    #: Microseconds.
    cpu_cfs_period: int = 100_000
    seccomp_default: bool = False
