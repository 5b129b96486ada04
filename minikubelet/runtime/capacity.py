"""How much of everything this host has, and how much of that pods can have (AD-5, CG-4).

`host.py` looks and works it out once at start; the mapping, the cgroups and admission go by it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import msgspec

from minikubelet.api import quantity
from minikubelet.api.effective import HUGE_PAGES, Amounts

MEMORY_AVAILABLE, STORAGE_AVAILABLE = "memory.available", "nodefs.available"
#: The reference's own, as far as they take something from pods.
THRESHOLDS = {MEMORY_AVAILABLE: "100Mi", STORAGE_AVAILABLE: "10%"}

_RESOURCE_OF = {MEMORY_AVAILABLE: "memory", STORAGE_AVAILABLE: "ephemeral-storage"}


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the host keeps for itself."""

    #: For the system and for what runs pods.
    reserved: Amounts = {}
    #: Of what is to stay free: a quantity or a percentage of the whole, by signal.
    thresholds: Mapping[str, str] = msgspec.field(default_factory=lambda: THRESHOLDS)


class NodeResources(msgspec.Struct, frozen=True, kw_only=True):
    """Cpu in cores, the rest in bytes; huge pages by size, `hugepages-2Mi`."""

    capacity: Amounts = {}
    #: Capacity less what is reserved: what all pods together are held to.
    for_pods: Amounts = {}
    #: And less what is to stay free: what pods can ask for.
    allocatable: Amounts = {}


def node_resources(capacity: Amounts, kept: Kept) -> NodeResources:
    for_pods = _less(capacity, kept.reserved)
    free = {
        resource: _threshold(kept.thresholds[signal], capacity.get(resource, Fraction()))
        for signal, resource in _RESOURCE_OF.items()
        if signal in kept.thresholds
    }
    return NodeResources(capacity=capacity, for_pods=for_pods, allocatable=_less(for_pods, free))


def find_capacity(*, memory: int, folder: Path, sysroot: Path = Path("/")) -> Amounts:
    """`memory` in bytes; `folder`: storage is that of the file system that it is on, or will be. Raises OSError."""
    return {
        "cpu": Fraction(os.cpu_count() or 1),
        "memory": Fraction(memory),
        "ephemeral-storage": _storage(folder),
        **_huge_pages(sysroot / "sys/kernel/mm/hugepages"),
    }


def _storage(folder: Path) -> Fraction:
    while not folder.exists():
        folder = folder.parent
    found = os.statvfs(folder)
    return Fraction(found.f_frsize * found.f_blocks)


def _huge_pages(folder: Path) -> Amounts:
    amounts: Amounts = {}
    for entry in folder.glob("hugepages-*"):
        size = int(entry.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        pages = int((entry / "nr_hugepages").read_text())
        amounts[HUGE_PAGES + quantity.written("memory", Fraction(size))] = Fraction(size * pages)
    return amounts


def _threshold(text: str, whole: Fraction) -> Fraction:
    if text.endswith("%"):
        return whole * Fraction(text.removesuffix("%")) / 100
    return quantity.parse(text)


def _less(amounts: Amounts, taken: Amounts) -> Amounts:
    return {name: max(amount - taken.get(name, Fraction()), Fraction()) for name, amount in amounts.items()}
