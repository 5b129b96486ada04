"""The quality-of-service class of a pod (CG-1): decides its cgroup, its OOM score and what `status.qosClass` shows."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.pod import PodSpec

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"

_COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, over regular containers, init containers and sidecars alike.

    What the pod says of itself as a whole counts instead of all of them.
    """
    requests: defaultdict[str, Fraction] = defaultdict(Fraction)
    limits: defaultdict[str, Fraction] = defaultdict(Fraction)
    all_limited = True
    counted = [container.resources for container in (*spec.containers, *spec.init_containers)]
    for resources in counted if spec.resources is None else [spec.resources]:
        _add(requests, resources.requests)
        _add(limits, resources.limits)
        own: defaultdict[str, Fraction] = defaultdict(Fraction)
        _add(own, resources.limits)
        all_limited = all_limited and len(own) == len(_COUNTED)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE


def _add(sums: defaultdict[str, Fraction], amounts: dict[str, str]) -> None:
    for name in _COUNTED:
        amount = quantity.parse(amounts[name]) if name in amounts else 0
        if amount:  # zero counts as absent
            sums[name] += amount
