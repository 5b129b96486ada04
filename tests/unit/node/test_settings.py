"""What the configuration says of the node."""

from __future__ import annotations

import platform
from fractions import Fraction

import pytest

from minikubelet.config import Config
from minikubelet.node.settings import kept, node_labels
from minikubelet.runtime.capacity import Kept


def test_what_is_reserved_adds_up() -> None:
    assert kept(reserved=({"cpu": 1, "memory": "1Gi"}, {"cpu": 0.5}), thresholds={"memory.available": "5%"}) == Kept(
        reserved={"cpu": Fraction(3, 2), "memory": Fraction(2**30)}, thresholds={"memory.available": "5%"}
    )


def test_the_default_configuration_keeps_what_the_kubelet_keeps() -> None:
    config = Config()
    assert kept(reserved=(config.system_reserved, config.kube_reserved), thresholds=config.eviction_hard) == Kept()


@pytest.mark.parametrize(
    ("machine", "arch"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("armv7l", "arm"), ("riscv64", "riscv64")]
)
def test_every_node_has_its_name_system_and_architecture_as_labels(
    monkeypatch: pytest.MonkeyPatch, machine: str, arch: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert node_labels({"disk": "ssd"}, node_name="edge-1") == {
        "disk": "ssd",
        "kubernetes.io/hostname": "edge-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": arch,
    }
