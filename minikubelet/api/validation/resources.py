"""Checks of resource requests and limits, of containers and of pods (VA-1). Called by `containers` and `pods`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minikubelet.api import quantity
from minikubelet.api.container import Container, ResourceRequirements, is_sidecar
from minikubelet.api.effective import HUGE_PAGES, container_requests, of_a_pod
from minikubelet.api.pod import PodSpec
from minikubelet.api.problems import Problem, Problems, duplicate, forbidden, invalid, required, unsupported
from minikubelet.api.validation import names

_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_STANDARD = (
    *_OF_CONTAINERS, "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
    "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
)  # fmt: skip
_NO_DEVICES = (
    "not supported by this agent: it has no device plugins, which would provide it; leave it out, and give the "
    "container the device itself, as a hostPath below /dev with privileged: true"
)

#: What is wrong with a resource's name at a place.
_NameCheck = Callable[[str, str], Iterator[Problem]]


def validate_resources(resources: ResourceRequirements, path: str) -> Problems:
    """Of one container."""
    yield from _requirements(resources, path, _container_resource)


def validate_resize_policies(container: Container, path: str, *, init: bool) -> Problems:
    """How resources may be changed while it runs: nothing does that here. `init`: of the init sequence (VI-5)."""
    seen: set[str] = set()
    for index, policy in enumerate(container.resize_policy):
        place = f"{path}.resizePolicy[{index}]"
        if policy.resource_name in seen:
            yield duplicate(place, policy.resource_name)
        seen.add(policy.resource_name)
        if not policy.resource_name:
            yield required(f"{place}.resourceName")
        elif policy.resource_name not in ("cpu", "memory"):
            yield unsupported(f"{place}.resourceName", policy.resource_name, ("cpu", "memory"))
        policies = ("NotRequired", "RestartContainer")
        if not policy.restart_policy:
            yield required(f"{place}.restartPolicy")
        elif policy.restart_policy not in policies:
            yield unsupported(f"{place}.restartPolicy", policy.restart_policy, policies)
        elif policy.restart_policy == "RestartContainer" and init and not is_sidecar(container):
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield invalid(f"{place}.restartPolicy", policy.restart_policy, detail)


def validate_pod_resources(spec: PodSpec) -> Problems:
    """What the pod as a whole may use, and how that goes with what its containers ask for."""
    resources, path = spec.resources, "spec.resources"
    if resources is None:
        return
    yield from _requirements(resources, path, _pod_resource)
    for name, asked in container_requests(spec).items():
        given = resources.requests.get(name, "0")
        if of_a_pod(name) and asked > quantity.parse(given):
            detail = f"must be greater than or equal to aggregate container requests of {quantity.written(name, asked)}"
            yield invalid(f"{path}.requests[{name}]", given, detail)
    for index, container in enumerate(spec.containers):
        for name, limit in container.resources.limits.items():
            most = resources.limits.get(name)
            if most is not None and quantity.parse(limit) > quantity.parse(most):
                place = f"spec.containers[{index}].resources.limits[{name}]"
                detail = f"must be less than or equal to pod limits of {most}"
                yield invalid(f"{path}.containers[{index}][{name}].limits", limit, detail, place=place)


def validate_overhead(overhead: dict[str, str]) -> Problems:
    yield from _requirements(ResourceRequirements(limits=overhead), "spec.overhead", _container_resource)


def _requirements(resources: ResourceRequirements, path: str, check_name: _NameCheck) -> Problems:
    limits, requests = resources.limits, resources.requests
    for name, amount in limits.items():
        yield from _entry(name, amount, f"{path}.limits[{name}]", check_name)
    for name, amount in requests.items():
        if limits.get(name) == amount:
            continue  # checked already; most likely a default that nobody wrote
        place = f"{path}.requests[{name}]"
        yield from _entry(name, amount, place, check_name)
        if name in limits:
            if not _may_exceed(name) and quantity.parse(amount) != quantity.parse(limits[name]):
                detail = f"must be equal to {name} limit of {limits[name]}"
                yield invalid(f"{path}.requests", amount, detail, place=place)
            elif quantity.parse(amount) > quantity.parse(limits[name]):
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{path}.requests", amount, detail, place=place)
        elif not _may_exceed(name):
            detail = "Required value: Limit must be set for non overcommitable resources"
            yield Problem(f"{path}.limits", detail, place=place)
    asked = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in asked) and not asked & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _entry(name: str, amount: str, path: str, check_name: _NameCheck) -> Problems:
    problems = list(check_name(name, path))
    yield from problems
    value = quantity.parse(amount)
    if value < 0:
        yield invalid(path, amount, "must be greater than or equal to 0")
    if "/" in name and value.denominator != 1:
        yield invalid(path, amount, "must be an integer")
    if name.startswith(HUGE_PAGES) and not problems and not _is_pages(name, amount):
        yield invalid(path, amount, f"{amount} is not positive integer multiple of {name}")
    if "/" in name and not problems:
        yield forbidden(path, _NO_DEVICES)


def _container_resource(name: str, path: str) -> Problems:
    problems = names.qualified_name(name)
    if "/" not in name:
        huge = name.startswith(HUGE_PAGES)
        if not huge and name not in _STANDARD:
            problems.append("must be a standard resource type or fully qualified")
        if not huge and name not in _OF_CONTAINERS:
            problems.append("must be a standard resource for containers")
    for detail in problems:
        yield invalid(path, name, detail)


def _pod_resource(name: str, path: str) -> Problems:
    problems = names.qualified_name(name)
    if "/" not in name and not name.startswith(HUGE_PAGES) and name not in _STANDARD:
        problems.append("must be a standard resource type or fully qualified")
    for detail in problems:
        yield invalid(path, name, detail)
    if not problems and not of_a_pod(name):
        yield unsupported(path, name, ("cpu", HUGE_PAGES, "memory"))


def _may_exceed(name: str) -> bool:
    """Whether more of it may be given out than asked for: not of what comes in whole pieces."""
    return "/" not in name and not name.startswith(HUGE_PAGES)


def _is_pages(name: str, amount: str) -> bool:
    """Whether an amount is a whole number of pages of the size in the resource's name."""
    try:
        size = quantity.parse(name.removeprefix(HUGE_PAGES))
    except quantity.QuantityError:
        return False
    value = quantity.parse(amount)
    return size > 0 and value >= 0 and value % size == 0
