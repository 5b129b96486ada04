"""Find out the facts of this host that the mapping needs (`mapping.NodeContext`). Blocking; called once at start."""

from __future__ import annotations

import os
import re
import socket
from fractions import Fraction
from pathlib import Path

from minikubelet.runtime.mapping import NodeContext, SwapControl

#: Documentation addresses: nothing is sent, the kernel is only asked which of its own addresses it would send from.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


#: The reference's hard eviction thresholds: what pods cannot have of the node (AD-5). Bytes, and a part of the whole.
_MEMORY_KEPT = 100 << 20
_STORAGE_KEPT = Fraction(1, 10)


def node_context(
    *,
    node_name: str,
    root_dir: Path,
    log_dir: Path,
    systemd_cgroups: bool,
    node_ip: str = "",
    cgroup_root: str = "",
    cluster_dns: tuple[str, ...] = (),
    cluster_domain: str = "",
    sysroot: Path = Path("/"),
) -> NodeContext:
    """What is given, and what the kernel says. An empty `node_ip` is found out. `sysroot` is for tests.

    Raises OSError: /proc or /sys is not readable.
    """
    memory = _memory(sysroot / "proc/meminfo")
    cgroup_v2 = (sysroot / "sys/fs/cgroup/cgroup.controllers").exists()
    return NodeContext(
        node_name=node_name,
        node_ip=node_ip or default_address(),
        root_dir=root_dir,
        log_dir=log_dir,
        memory_capacity=memory,
        allocatable={
            "cpu": Fraction(os.cpu_count() or 1),
            "memory": Fraction(max(memory - _MEMORY_KEPT, 0)),
            "ephemeral-storage": _storage(root_dir) * (1 - _STORAGE_KEPT),
        },
        systemd_cgroups=systemd_cgroups,
        cgroup_root=cgroup_root,
        cgroup_v2=cgroup_v2,
        swap_control=_swap_control(sysroot, cgroup_v2=cgroup_v2),
        hugepage_sizes=_hugepage_sizes(sysroot / "sys/kernel/mm/hugepages"),
        thermal_throttle_paths=_thermal_throttle(sysroot),
        cluster_dns=cluster_dns,
        cluster_domain=cluster_domain,
    )


def default_address() -> str:
    """The address this host is reached by, as its default route says; "" if it has none."""
    for family, elsewhere in _ELSEWHERE:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((elsewhere, 9))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return ""


def _storage(folder: Path) -> Fraction:
    """The size in bytes of the file system that the folder is on, or will be."""
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    return Fraction(found.f_frsize * found.f_blocks)


def _memory(meminfo: Path) -> int:
    """MemTotal in bytes."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"{meminfo} has no MemTotal")
    return int(found[1]) * 1024


def _swap_control(sysroot: Path, *, cgroup_v2: bool) -> SwapControl:
    """LR-5. On v2 the root cgroup has no swap file of its own: ask the first one below it."""
    cgroups = sysroot / "sys/fs/cgroup"
    if cgroup_v2:
        return SwapControl.SWAP_MAX if any(cgroups.glob("*/memory.swap.max")) else SwapControl.NONE
    return SwapControl.MEMSW if (cgroups / "memory/memory.memsw.limit_in_bytes").exists() else SwapControl.NONE


def _hugepage_sizes(folder: Path) -> tuple[str, ...]:
    """`hugepages-2048kB` is 2MB, as the kernel's own cgroup files spell it (LR-7)."""
    sizes = sorted(
        int(entry.name.removeprefix("hugepages-").removesuffix("kB")) for entry in folder.glob("hugepages-*")
    )
    return tuple(_size_name(size) for size in sizes)


def _size_name(kib: int) -> str:
    for unit, factor in (("GB", 1 << 20), ("MB", 1 << 10)):
        if kib >= factor:
            return f"{kib // factor}{unit}"
    return f"{kib}KB"


def _thermal_throttle(sysroot: Path) -> tuple[str, ...]:
    found = (sysroot / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle")
    return tuple(sorted(f"/{path.relative_to(sysroot)}" for path in found))
