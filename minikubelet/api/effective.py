"""What a pod needs as a whole, sidecars and init containers taken into account (RS-1 to RS-3).

The mapping tells the runtime, admission compares it with what the node has, the pod's cgroup is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.container import Container, is_sidecar
from minikubelet.api.pod import PodSpec

#: Per resource name: cpu in cores, the rest in bytes or pieces.
Amounts = dict[str, Fraction]

HUGE_PAGES = "hugepages-"
_OF_A_POD = ("cpu", "memory")


def of_a_pod(resource: str) -> bool:
    """Whether `spec.resources` may speak of a resource."""
    return resource in _OF_A_POD or resource.startswith(HUGE_PAGES)


def container_requests(spec: PodSpec) -> Amounts:
    """The pod at its widest: all mains and sidecars, or one init container beside the sidecars before it (RS-1)."""
    return _widest(spec, requests_of)


def effective_requests(spec: PodSpec, *, overhead: bool) -> Amounts:
    """The same, but what the pod itself says counts instead (RS-2). `overhead`: with that of its runtime class."""
    amounts = {**container_requests(spec), **_of_the_pod(spec, "requests")}
    return _plus(amounts, amounts_of(spec.overhead)) if overhead else amounts


def effective_limits(spec: PodSpec, *, overhead: bool) -> Amounts:
    """The same walk on limits: plain sums, also where some container has none (SB-14)."""
    amounts = {**_widest(spec, limits_of), **_of_the_pod(spec, "limits")}
    if not overhead:
        return amounts
    return _plus(amounts, {name: more for name, more in amounts_of(spec.overhead).items() if amounts.get(name)})


def is_limited(spec: PodSpec, resource: str) -> bool:
    """Whether there is a limit for the pod as a whole: its own, or one of every container (CG-6).

    An init container is as limited as the sidecars before it and itself together (RS-3).
    """
    if _of_the_pod(spec, "limits").get(resource):
        return True
    steps = [limits_of(container) for container in spec.containers] + list(_init_steps(spec, limits_of))
    return all(step.get(resource) for step in steps)


def requests_of(container: Container) -> Amounts:
    return amounts_of(container.resources.requests)


def limits_of(container: Container) -> Amounts:
    return amounts_of(container.resources.limits)


def amounts_of(quantities: Mapping[str, str]) -> Amounts:
    return {name: quantity.parse(text) for name, text in quantities.items()}


def _of_the_pod(spec: PodSpec, kind: str) -> Amounts:
    resources = spec.resources
    if resources is None:
        return {}
    written = resources.requests if kind == "requests" else resources.limits
    return {name: amount for name, amount in amounts_of(written).items() if of_a_pod(name)}


def _widest(spec: PodSpec, asked: Callable[[Container], Amounts]) -> Amounts:
    total: Amounts = {}
    for container in (*spec.containers, *filter(is_sidecar, spec.init_containers)):
        total = _plus(total, asked(container))
    for use in _init_steps(spec, asked):
        total = _wider(total, use)
    return total


def _init_steps(spec: PodSpec, asked: Callable[[Container], Amounts]) -> Iterator[Amounts]:
    """What is in use while each entry of the init sequence starts: it, and the sidecars before it."""
    sidecars: Amounts = {}
    for container in spec.init_containers:
        use = _plus(sidecars, asked(container))
        if is_sidecar(container):
            sidecars = use
        yield use


def _plus(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, Fraction()) + right.get(name, Fraction()) for name in {**left, **right}}


def _wider(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Fraction()), right.get(name, Fraction())) for name in {**left, **right}}
