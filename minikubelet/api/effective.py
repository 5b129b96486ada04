"""What a pod needs as a whole, sidecars and init containers taken into account (RS-1, RS-2).

The mapping tells the runtime, admission compares it with what the node has.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.container import Container, is_sidecar
from minikubelet.api.pod import PodSpec

#: Per resource name.
Amounts = dict[str, Fraction]


def effective_requests(spec: PodSpec) -> Amounts:
    """The pod at its widest: all mains and sidecars, or one init container beside the sidecars before it."""
    return _walk(spec, lambda container: container.resources.requests)


def effective_limits(spec: PodSpec) -> Amounts:
    """The same walk on limits: plain sums, also where some container has none (SB-14)."""
    return _walk(spec, lambda container: container.resources.limits)


def _walk(spec: PodSpec, asked: Callable[[Container], dict[str, str]]) -> Amounts:
    total: Amounts = {}
    for container in spec.containers:
        total = _plus(total, asked(container))
    sidecars: Amounts = {}
    widest: Amounts = {}
    for container in spec.init_containers:
        use = _plus(sidecars, asked(container))
        if is_sidecar(container):
            total = _plus(total, asked(container))
            sidecars = use
        widest = _wider(widest, use)
    return _wider(total, widest)


def _plus(amounts: Amounts, quantities: dict[str, str]) -> Amounts:
    added = {name: quantity.parse(text) for name, text in quantities.items()}
    return {name: amounts.get(name, Fraction()) + added.get(name, Fraction()) for name in {**amounts, **added}}


def _wider(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Fraction()), right.get(name, Fraction())) for name in {**left, **right}}
