"""Limits as the kernel takes them (CG-3, CG-6)."""

from __future__ import annotations

import pytest

from minikubelet.pods.cgroups.files import settings_v1, settings_v2, weight
from minikubelet.runtime.mapping.cgroup import UNLIMITED, CgroupLimits

ALL = CgroupLimits(
    cpu_shares=153, cpu_quota=20_000, cpu_period=100_000, memory=1 << 20, pids=7, huge_pages={"2MB": 4 << 20}
)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        pytest.param(2, 1, id="CG-3 the least"),
        pytest.param(0, 1, id="CG-3 less is the least as well"),
        pytest.param(102, 4, id="CG-3 100m"),
        pytest.param(1024, 39, id="CG-3 one core"),
        pytest.param(262_143, 9999, id="CG-3 almost the most"),
        pytest.param(262_144, 10_000, id="CG-3 the most"),
        pytest.param(10**6, 10_000, id="CG-3 more is the most"),
    ],
)
def test_weight(shares: int, expected: int) -> None:
    assert weight(shares) == expected


def test_everything_on_v1() -> None:
    assert settings_v1(ALL) == [
        ("cpu", "cpu.shares", "153"),
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "20000"),
        ("memory", "memory.limit_in_bytes", "1048576"),
        ("pids", "pids.max", "7"),
        ("hugetlb", "hugetlb.2MB.limit_in_bytes", "4194304"),
    ]


def test_everything_on_v2() -> None:
    assert settings_v2(ALL) == [
        ("cpu", "cpu.weight", "6"),
        ("cpu", "cpu.max", "20000 100000"),
        ("memory", "memory.max", "1048576"),
        ("pids", "pids.max", "7"),
        ("hugetlb", "hugetlb.2MB.max", "4194304"),
    ]


def test_of_what_is_not_limited_nothing_is_written() -> None:
    bare = CgroupLimits(cpu_shares=2)
    assert settings_v1(bare) == [("cpu", "cpu.shares", "2")]
    assert settings_v2(bare) == [("cpu", "cpu.weight", "1")]


def test_an_unlimited_quota() -> None:
    limits = CgroupLimits(cpu_shares=2, cpu_quota=UNLIMITED, cpu_period=100_000)
    assert settings_v1(limits)[-1] == ("cpu", "cpu.cfs_quota_us", "-1")
    assert settings_v2(limits)[-1] == ("cpu", "cpu.max", "max 100000")
