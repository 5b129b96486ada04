"""Where a pod's things lie on the host: the kubelet's layout, so that log collectors find them (SB-4, CC-4, PD-1)."""

from __future__ import annotations

from pathlib import Path

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping.node import NodeContext


def log_directory(pod: Pod, node: NodeContext) -> str:
    """`LOGS/<namespace>_<name>_<uid>` (SB-4)."""
    meta = pod.metadata
    return str(node.log_dir / f"{meta.namespace}_{meta.name}_{meta.uid}")


def container_log_directory(pod: Pod, container: str, node: NodeContext) -> Path:
    """Must exist before the container is created (CC-4)."""
    return Path(log_directory(pod, node)) / container


def container_log_path(container: str, restart_count: int) -> str:
    """Relative to `log_directory`."""
    return f"{container}/{restart_count}.log"


def pod_directory(uid: str, node: NodeContext) -> Path:
    """`ROOT/pods/<uid>` (PD-1)."""
    return node.root_dir / "pods" / uid
