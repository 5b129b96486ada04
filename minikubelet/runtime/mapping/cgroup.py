"""The cgroup a pod's containers go to (CG-2)."""

from __future__ import annotations

from minikubelet.api.pod import Pod
from minikubelet.api.qos import GUARANTEED, qos_class
from minikubelet.runtime.mapping.node import NodeContext


def cgroup_parent(pod: Pod, node: NodeContext) -> str:
    """The `cgroup_parent` to send; for systemd the full path of slices, of which containerd uses the last."""
    parts = [part for part in node.cgroup_root.split("/") if part] + ["kubepods"]
    qos = qos_class(pod.spec)
    if qos != GUARANTEED:
        parts.append(qos.lower())
    parts.append(f"pod{pod.metadata.uid}")
    if not node.systemd_cgroups:
        return "/" + "/".join(parts)
    # systemd derives a slice's parents from the dashes of its name, so dashes of our own have to go.
    parts = [part.replace("-", "_") for part in parts]
    return "/" + "/".join("-".join(parts[: i + 1]) + ".slice" for i in range(len(parts)))
