"""Limits as the kernel takes them: which text goes into which file of a cgroup, on v1 and on v2 (CG-3). Pure."""

from __future__ import annotations

from typing import NamedTuple

from minikubelet.runtime.mapping.cgroup import UNLIMITED, CgroupLimits

_MOST_SHARES = 262_144


class Setting(NamedTuple):
    controller: str
    file: str
    text: str


def weight(cpu_shares: int) -> int:
    """v1's shares (2 to 262144) as v2's weight (1 to 10000)."""
    if cpu_shares >= _MOST_SHARES:
        return 10_000
    return 1 + (max(cpu_shares, 2) - 2) * 9999 // (_MOST_SHARES - 2)


def settings_v1(limits: CgroupLimits) -> list[Setting]:
    settings = [Setting("cpu", "cpu.shares", str(limits.cpu_shares))]
    if limits.cpu_quota is not None:
        settings += [
            Setting("cpu", "cpu.cfs_period_us", str(limits.cpu_period)),
            Setting("cpu", "cpu.cfs_quota_us", str(limits.cpu_quota)),
        ]
    if limits.memory is not None:
        settings.append(Setting("memory", "memory.limit_in_bytes", str(limits.memory)))
    if limits.pids is not None:
        settings.append(Setting("pids", "pids.max", str(limits.pids)))
    return settings + [
        Setting("hugetlb", f"hugetlb.{size}.limit_in_bytes", str(amount)) for size, amount in limits.huge_pages.items()
    ]


def settings_v2(limits: CgroupLimits) -> list[Setting]:
    settings = [Setting("cpu", "cpu.weight", str(weight(limits.cpu_shares)))]
    if limits.cpu_quota is not None:
        quota = "max" if limits.cpu_quota == UNLIMITED else str(limits.cpu_quota)
        settings.append(Setting("cpu", "cpu.max", f"{quota} {limits.cpu_period}"))
    if limits.memory is not None:
        settings.append(Setting("memory", "memory.max", str(limits.memory)))
    if limits.pids is not None:
        settings.append(Setting("pids", "pids.max", str(limits.pids)))
    return settings + [
        Setting("hugetlb", f"hugetlb.{size}.max", str(amount)) for size, amount in limits.huge_pages.items()
    ]
