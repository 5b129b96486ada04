"""What the node offers, as found on the host."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from minikubelet.node.admission import Node
from minikubelet.node.offer import kernel_version, node_offer
from minikubelet.runtime.capacity import NodeResources
from tests.unit.runtime.build import node


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.1.0-18-amd64", (6, 1)), ("4.15.18", (4, 15)), ("5.15-rc1", (5, 15)), ("strange", (0, 0))],
)
def test_the_kernels_version(release: str, version: tuple[int, int]) -> None:
    assert kernel_version(release) == version


def _offer(sysroot: Path) -> Node:
    context = node(
        resources=NodeResources(allocatable={"cpu": Fraction(2)}), runtime_classes={"gvisor": "runsc"}, node_name="n"
    )
    return node_offer(
        context,
        max_pods=7,
        labels={"disk": "ssd"},
        unsafe_sysctls=["net.core.*"],
        strict_groups=True,
        sysroot=sysroot,
    )


def test_what_is_configured_is_offered(tmp_path: Path) -> None:
    found = _offer(tmp_path)
    assert (found.name, found.max_pods, found.allocatable) == ("n", 7, {"cpu": Fraction(2)})
    assert found.labels["disk"] == "ssd"
    assert found.labels["kubernetes.io/hostname"] == "n"
    assert {"net.core.*", "kernel.shm_rmid_forced"} <= found.sysctls
    assert found.strict_groups
    assert found.runtime_classes == {"gvisor"}


@pytest.mark.parametrize(("content", "there"), [("Y\n", True), ("N\n", False), (None, False)])
def test_ad_3_whether_the_kernel_has_app_armor(tmp_path: Path, content: str | None, *, there: bool) -> None:
    if content is not None:
        folder = tmp_path / "sys/module/apparmor/parameters"
        folder.mkdir(parents=True)
        (folder / "enabled").write_text(content)
    assert _offer(tmp_path).app_armor is there
