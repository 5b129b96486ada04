"""Checks of a container's resource requests and limits (VA-1). Called by `containers`."""

from __future__ import annotations

from minikubelet.api import quantity
from minikubelet.api.container import ResourceRequirements
from minikubelet.api.problems import Problems, forbidden, invalid
from minikubelet.api.validation import names

#: What is supported so far.
_SUPPORTED = ("cpu", "memory")
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_STANDARD = (
    *_OF_CONTAINERS, "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory",
    "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
    "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers",
)  # fmt: skip


def validate_resources(resources: ResourceRequirements, path: str) -> Problems:
    for name, amount in resources.limits.items():
        yield from _entry(name, amount, f"{path}.limits[{name}]")
    for name, amount in resources.requests.items():
        if resources.limits.get(name) == amount:
            continue  # checked already; most likely a default that nobody wrote
        yield from _entry(name, amount, f"{path}.requests[{name}]")
        limit = resources.limits.get(name)
        if limit is not None and quantity.parse(amount) > quantity.parse(limit):
            detail = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests", amount, detail, place=f"{path}.requests[{name}]")


def _entry(name: str, amount: str, path: str) -> Problems:
    problems = names.qualified_name(name)
    if "/" not in name:
        huge = name.startswith(_HUGE_PAGES)
        if not huge and name not in _STANDARD:
            problems.append("must be a standard resource type or fully qualified")
        if not huge and name not in _OF_CONTAINERS:
            problems.append("must be a standard resource for containers")
    for detail in problems:
        yield invalid(path, name, detail)
    if not problems and name not in _SUPPORTED:
        yield forbidden(path, "not supported yet")
    if quantity.parse(amount) < 0:
        yield invalid(path, amount, "must be greater than or equal to 0")
