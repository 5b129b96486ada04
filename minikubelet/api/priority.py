"""Which pods the host itself cannot do without. Asked by the mapping and by admission.

As with ordinary pods of a cluster, only these two class names make a pod critical; being from a file does not.
"""

from __future__ import annotations

from minikubelet.api.pod import PodSpec

NODE_CRITICAL = "system-node-critical"
CLUSTER_CRITICAL = "system-cluster-critical"


def is_critical(spec: PodSpec) -> bool:
    return spec.priority_class_name in (NODE_CRITICAL, CLUSTER_CRITICAL)
