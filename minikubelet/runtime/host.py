"""Find out the facts of this host that the mapping needs (`mapping.NodeContext`). Blocking; called once at start."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from minikubelet.runtime.capacity import Kept, find_capacity, node_resources
from minikubelet.runtime.mapping import NodeContext, SwapControl

_KEPT_BY_DEFAULT = Kept()
#: Documentation addresses: nothing is sent, the kernel is only asked which of its own addresses it would send from.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


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
    kept: Kept = _KEPT_BY_DEFAULT,
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
        resources=node_resources(find_capacity(memory=memory, folder=root_dir, sysroot=sysroot), kept),
        systemd_cgroups=systemd_cgroups,
        cgroup_root=cgroup_root,
        cgroup_v2=cgroup_v2,
        swap_control=_swap_control(sysroot, cgroup_v2=cgroup_v2),
        hugepage_sizes=_hugepage_sizes(sysroot / "sys/kernel/mm/hugepages"),
        thermal_throttle_paths=_thermal_throttle(sysroot),
        se_linux=(sysroot / "sys/fs/selinux/enforce").exists(),
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
