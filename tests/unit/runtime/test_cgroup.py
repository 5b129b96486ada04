"""What cgroups pods are held to (CG-4 to CG-6)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from minikubelet.runtime.capacity import NodeResources
from minikubelet.runtime.mapping.cgroup import (
    UNLIMITED,
    CgroupLimits,
    pod_limits,
    qos_cgroup,
    qos_limits,
    root_cgroup,
    root_limits,
    weight_in_class,
)
from tests.unit.runtime.build import NODE, container, node, pod

MIB = 2**20
FULL = {"cpu": "500m", "memory": "64Mi"}
SIDE = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(container()), CgroupLimits(cpu_shares=2), id="CG-6 BestEffort"),
        pytest.param(
            pod(container(requests=FULL, limits=FULL)),
            CgroupLimits(cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, memory=64 * MIB),
            id="CG-6 Guaranteed",
        ),
        pytest.param(
            pod(container(requests={"cpu": "100m"}, limits=FULL)),
            CgroupLimits(cpu_shares=102, cpu_quota=50_000, cpu_period=100_000, memory=64 * MIB),
            id="CG-6 Burstable, all limited",
        ),
        pytest.param(
            # Section 13: a sidecar without limits beside a main that has them.
            pod(
                container(requests={"cpu": "100m", "memory": "64Mi"}, limits={"cpu": "200m", "memory": "128Mi"}),
                init=(container("side", requests={"cpu": "50m", "memory": "32Mi"}, **SIDE),),
            ),
            CgroupLimits(cpu_shares=153),
            id="CG-6 Burstable, a sidecar without limits",
        ),
        pytest.param(
            pod(container(limits=FULL), init=(container("side", limits=FULL, **SIDE), container("init"))),
            CgroupLimits(cpu_shares=2, cpu_quota=100_000, cpu_period=100_000, memory=128 * MIB),
            id="CG-6 an init container counts with the sidecars before it",
        ),
        pytest.param(
            pod(container(limits={"memory": "64Mi"}, requests={"cpu": "100m"})),
            CgroupLimits(cpu_shares=102, memory=64 * MIB),
            id="CG-6 memory limited, cpu not",
        ),
        pytest.param(
            pod(container(), resources={"limits": FULL, "requests": {"cpu": "250m"}}),
            CgroupLimits(cpu_shares=256, cpu_quota=50_000, cpu_period=100_000, memory=64 * MIB),
            id="CG-6 limits of the pod's own",
        ),
        pytest.param(
            pod(container(requests=FULL, limits=FULL), overhead={"cpu": "500m", "memory": "1Mi"}),
            CgroupLimits(cpu_shares=1024, cpu_quota=100_000, cpu_period=100_000, memory=65 * MIB),
            id="CG-6 with overhead",
        ),
    ],
)
def test_a_pods_limits(of: Any, expected: CgroupLimits) -> None:  # 13/sidecar
    assert pod_limits(of, NODE) == expected


def test_cg_6_with_cfs_quota_off_there_is_none() -> None:
    limits = pod_limits(pod(container(requests=FULL, limits=FULL)), node(cpu_cfs_quota=False))
    assert limits.cpu_quota == UNLIMITED


def test_cg_6_pids_are_limited_where_the_node_says_so() -> None:
    assert pod_limits(pod(), node(pod_pids_limit=100)).pids == 100
    assert pod_limits(pod(), NODE).pids is None


def test_cg_6_huge_pages_of_every_size_are_limited_to_what_is_asked_for() -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    of = pod(container(requests={**FULL, **pages}, limits={**FULL, **pages}))
    assert pod_limits(of, node(hugepage_sizes=("2MB", "1GB"))).huge_pages == {"2MB": 4 * MIB, "1GB": 0}


def test_cg_4_all_pods_together_have_what_the_node_does_not_keep() -> None:
    at = node(resources=NodeResources(for_pods={"cpu": Fraction(3, 2), "memory": Fraction(1 << 30)}))
    assert root_limits(at) == CgroupLimits(cpu_shares=1536, memory=1 << 30)


def test_cg_5_burstable_pods_together_weigh_what_they_ask_for() -> None:
    of = pod(container(requests={"cpu": "250m"}), overhead={"cpu": "250m"})
    assert weight_in_class(of) == 500
    assert weight_in_class(pod(container(requests=FULL, limits=FULL))) == weight_in_class(pod()) == 0
    assert qos_limits(1000) == CgroupLimits(cpu_shares=1024)
    assert qos_limits(0) == CgroupLimits(cpu_shares=2)


@pytest.mark.parametrize(
    ("given", "root", "burstable"),
    [
        ({}, "/kubepods", "/kubepods/burstable"),
        ({"cgroup_root": "/mine"}, "/mine/kubepods", "/mine/kubepods/burstable"),
        ({"systemd_cgroups": True}, "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"),
    ],
)
def test_cg_2_the_cgroups_above_pods(given: dict[str, Any], root: str, burstable: str) -> None:
    assert root_cgroup(node(**given)) == qos_cgroup("Guaranteed", node(**given)) == root
    assert qos_cgroup("Burstable", node(**given)) == burstable
