"""Pod cgroups: made with their limits before the sandbox, removed when all containers have stopped (CG-3 to CG-7).

containerd would make a pod's cgroup by itself, without limits, and leaves it behind (CD 2).
"""

from minikubelet.pods.cgroups.pods import CgroupError, PodCgroups, pod_cgroups

__all__ = ["CgroupError", "PodCgroups", "pod_cgroups"]
