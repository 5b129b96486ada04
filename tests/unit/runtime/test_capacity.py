"""What the host has, and what of it pods can have (AD-5, CG-4)."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from minikubelet.api.effective import Amounts
from minikubelet.runtime.capacity import Kept, find_capacity, node_resources

GIB = 2**30
HOST: Amounts = {"cpu": Fraction(4), "memory": Fraction(8 * GIB), "ephemeral-storage": Fraction(100 * GIB)}


def test_what_the_host_has(tmp_path: Path) -> None:
    for size, pages in (("2048kB", 3), ("1048576kB", 0)):
        folder = tmp_path / f"sys/kernel/mm/hugepages/hugepages-{size}"
        folder.mkdir(parents=True)
        (folder / "nr_hugepages").write_text(f"{pages}\n")
    found = find_capacity(memory=GIB, folder=tmp_path / "not/made/yet", sysroot=tmp_path)
    disk = os.statvfs(tmp_path)
    assert found == {
        "cpu": os.cpu_count(),
        "memory": GIB,
        "ephemeral-storage": disk.f_frsize * disk.f_blocks,
        "hugepages-2Mi": 3 * 2 * 2**20,
        "hugepages-1Gi": 0,
    }


@pytest.mark.parametrize(
    ("kept", "for_pods", "allocatable"),
    [
        pytest.param(
            Kept(thresholds={}),
            (4, 8 * GIB, 100 * GIB),
            (4, 8 * GIB, 100 * GIB),
            id="nothing is kept",
        ),
        pytest.param(
            Kept(), (4, 8 * GIB, 100 * GIB), (4, 8 * GIB - 100 * 2**20, 90 * GIB), id="AD-5 the reference's thresholds"
        ),
        pytest.param(
            Kept(reserved={"cpu": Fraction(1, 2), "memory": Fraction(GIB)}, thresholds={"memory.available": "25%"}),
            (Fraction(7, 2), 7 * GIB, 100 * GIB),
            (Fraction(7, 2), 5 * GIB, 100 * GIB),
            id="CG-4 reserved is kept from all pods together, the threshold only from what they ask for",
        ),
        pytest.param(
            Kept(reserved={"cpu": Fraction(9)}, thresholds={"memory.available": "9Gi"}),
            (0, 8 * GIB, 100 * GIB),
            (0, 0, 100 * GIB),
            id="no less than nothing is left",
        ),
    ],
)
def test_what_pods_can_have(kept: Kept, for_pods: tuple[object, ...], allocatable: tuple[object, ...]) -> None:
    found = node_resources(HOST, kept)
    assert found.capacity == HOST
    assert tuple(found.for_pods.values()) == for_pods
    assert tuple(found.allocatable.values()) == allocatable
