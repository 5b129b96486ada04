"""The facts of this node that the mapping needs; found out once at start (`runtime/host.py`, `runtime/checks.py`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import msgspec

from minikubelet.runtime.capacity import NodeResources


class SwapControl(enum.Enum):
    """How the kernel lets containers be kept from swapping (LR-5)."""

    NONE = "none"
    MEMSW = "memory.memsw.limit_in_bytes"  # cgroup v1
    SWAP_MAX = "memory.swap.max"  # cgroup v2


class RuntimeClassError(LookupError):
    """There is no such runtime class; no sandbox is made."""


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
    resources: NodeResources = NodeResources()
    systemd_cgroups: bool
    cgroup_root: str = ""
    cgroup_v2: bool = False
    swap_control: SwapControl = SwapControl.NONE
    #: As the kernel counts them, e.g. ("2MB", "1GB").
    hugepage_sizes: tuple[str, ...] = ()
    #: Existing /sys/devices/system/cpu/cpu*/thermal_throttle (SC-8).
    thermal_throttle_paths: tuple[str, ...] = ()
    #: The kernel lets processes use only files with their label (MT-2).
    se_linux: bool = False
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    cpu_cfs_quota: bool = True
    #: Microseconds.
    cpu_cfs_period: int = 100_000
    #: How many processes and threads a pod may have; 0: any number.
    pod_pids_limit: int = 0
    #: Out of memory, a container loses one process and not all (LR-6); on cgroup v1 it is never otherwise.
    single_process_oom_kill: bool = False
    seccomp_default: bool = False
    #: The runtime's handler for each runtime class.
    runtime_classes: Mapping[str, str] = {}
    #: Handlers of the runtime that can give a pod user ids of its own (SB-11).
    user_namespaces: frozenset[str] = frozenset()
    #: Handlers of the runtime that can make a mount read-only all the way down (MT-3).
    recursive_read_only: frozenset[str] = frozenset()
    #: The full name of the image that the runtime makes sandboxes of; empty: not known.
    sandbox_image: str = ""
    #: Whether the runtime can mount an image into a container.
    image_volumes: bool = False

    @property
    def allocatable(self) -> Mapping[str, Fraction]:
        """What pods can ask for: cpu in cores, memory and ephemeral-storage in bytes; stands in for limits (EV-6)."""
        return self.resources.allocatable

    def handler(self, runtime_class: str | None) -> str:
        """The runtime's handler for pods of a runtime class; "" is its default. Raises RuntimeClassError."""
        if not runtime_class:
            return ""
        if runtime_class not in self.runtime_classes:
            raise RuntimeClassError(f'failed to get sandbox runtime: RuntimeClass "{runtime_class}" not found')
        return self.runtime_classes[runtime_class]
