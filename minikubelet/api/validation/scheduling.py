"""Checks of what chooses nodes: selectors, affinity, tolerations (VA-1). Called by `pods`.

Most of it has no effect on a single host; it is checked all the same, so that a manifest means the same everywhere.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import PodSpec
from minikubelet.api.problems import Problems, forbidden, invalid, required, unsupported
from minikubelet.api.scheduling import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
)
from minikubelet.api.validation import names

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_OPERATOR = "not a valid selector operator"


def validate_node_selector(selector: dict[str, str]) -> Problems:
    path = "spec.nodeSelector"
    for key, value in selector.items():
        for detail in names.qualified_name(key):
            yield invalid(path, key, detail, place=f"{path}[{key}]")
        for detail in names.label_value(value):
            yield invalid(path, value, detail, place=f"{path}[{key}]")


def validate_affinity(spec: PodSpec) -> Problems:
    affinity, path = spec.affinity, "spec.affinity"
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        yield from _node_affinity(affinity.node_affinity, f"{path}.nodeAffinity")
    if affinity.pod_affinity is not None:
        yield from _pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    if affinity.pod_anti_affinity is not None:
        yield from _pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def validate_tolerations(tolerations: tuple[Toleration, ...]) -> Problems:
    for index, toleration in enumerate(tolerations):
        path, operator = f"spec.tolerations[{index}]", toleration.operator
        if toleration.key:
            for detail in names.qualified_name(toleration.key):
                yield invalid(f"{path}.key", toleration.key, detail)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{path}.operator", operator, detail)
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{path}.effect", toleration.effect, detail)
        if operator in ("", "Equal"):
            if problems := names.label_value(toleration.value):
                yield invalid(f"{path}.operator", toleration.value, ";".join(problems))
        elif operator != "Exists":
            yield unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
        elif toleration.value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield invalid(f"{path}.operator", msgspec.to_builtins(toleration), detail)
        effects = ("NoExecute", "NoSchedule", "PreferNoSchedule")
        if toleration.effect and toleration.effect not in effects:
            yield unsupported(f"{path}.effect", toleration.effect, effects)


def _node_affinity(affinity: NodeAffinity, path: str) -> Problems:
    chosen = affinity.required_during_scheduling_ignored_during_execution
    if chosen is not None:
        place = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not chosen.node_selector_terms:
            yield required(place, "must have at least one node selector term")
        for index, term in enumerate(chosen.node_selector_terms):
            yield from _term(term, f"{place}[{index}]", values=True)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(preferred.weight, f"{place}.weight")
        yield from _term(preferred.preference, f"{place}.preference", values=False)


def _term(term: NodeSelectorTerm, path: str, *, values: bool) -> Problems:
    """`values`: they are checked as well."""
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression(requirement, f"{path}.matchExpressions[{index}]", values=values)
    for index, requirement in enumerate(term.match_fields):
        yield from _field(requirement, f"{path}.matchFields[{index}]")


def _expression(requirement: NodeSelectorRequirement, path: str, *, values: bool) -> Problems:
    count = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            if not count:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if count:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", detail)
        case "Gt" | "Lt":
            if count != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid(f"{path}.operator", requirement.operator, _NO_OPERATOR)
    for detail in names.qualified_name(requirement.key):
        yield invalid(f"{path}.key", requirement.key, detail)
    for index, value in enumerate(requirement.values if values else ()):
        for detail in names.label_value(value):
            yield invalid(f"{path}.values[{index}]", value, detail)


def _field(requirement: NodeSelectorRequirement, path: str) -> Problems:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", requirement.operator, _NO_OPERATOR)
    elif len(requirement.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", detail)
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        for detail in names.dns_subdomain(value):
            yield invalid(f"{path}.values[{index}]", value, detail)


def _pod_affinity(affinity: PodAffinity, path: str) -> Problems:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(weighted.weight, f"{place}.weight")
        yield from _pod_term(weighted.pod_affinity_term, f"{place}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, path: str) -> Problems:
    for namespace in term.namespaces:
        for detail in names.dns_label(namespace):
            yield invalid(f"{path}.namespace", namespace, detail)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    for detail in names.qualified_name(term.topology_key):
        yield invalid(f"{path}.topologyKey", term.topology_key, detail)


def _weight(weight: int, path: str) -> Problems:
    if not 1 <= weight <= 100:
        yield invalid(path, weight, "must be in the range 1-100")
