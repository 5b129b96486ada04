"""What this node offers to pods, found out once at start from the host and the configuration; admission goes by it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from minikubelet.node.admission import Node
from minikubelet.node.settings import node_labels
from minikubelet.node.sysctls import allowed_sysctls
from minikubelet.runtime.mapping import NodeContext


def node_offer(
    node: NodeContext,
    *,
    max_pods: int,
    labels: Mapping[str, str],
    unsafe_sysctls: Iterable[str],
    strict_groups: bool,
    sysroot: Path = Path("/"),
) -> Node:
    """`labels` and `unsafe_sysctls` as configured; `strict_groups`: the runtime has them. Blocking.

    `sysroot` is for tests.
    """
    return Node(
        name=node.node_name,
        labels=node_labels(labels, node_name=node.node_name),
        allocatable=dict(node.allocatable),
        max_pods=max_pods,
        sysctls=allowed_sysctls(unsafe_sysctls, kernel=kernel_version(platform.release())),
        app_armor=_has_app_armor(sysroot),
        strict_groups=strict_groups,
        runtime_classes=frozenset(node.runtime_classes),
    )


def kernel_version(release: str) -> tuple[int, int]:
    """The first two numbers of a kernel's release, `6.1.0-18-amd64`; 0, 0 if there are none."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _has_app_armor(sysroot: Path) -> bool:
    try:
        return (sysroot / "sys/module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False
