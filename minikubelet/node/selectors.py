"""Whether a pod's node selector and required node affinity choose this node (AD-1). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from minikubelet.api.pod import PodSpec
from minikubelet.api.scheduling import NodeSelectorRequirement, NodeSelectorTerm

#: The one field of a node that may be asked for.
NAME_FIELD = "metadata.name"


def matches_node(spec: PodSpec, *, name: str, labels: Mapping[str, str]) -> bool:
    """`name` and `labels` are the node's."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return True
    return any(_meets(term, name=name, labels=labels) for term in required.node_selector_terms)


def _meets(term: NodeSelectorTerm, *, name: str, labels: Mapping[str, str]) -> bool:
    """A term without any requirement chooses no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: name}
    return all(_holds(requirement, labels) for requirement in term.match_expressions) and all(
        _holds(requirement, fields) for requirement in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    found = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return found in requirement.values
        case "NotIn":
            return found not in requirement.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case _:
            return _compares(requirement, found)


def _compares(requirement: NodeSelectorRequirement, found: str | None) -> bool:
    """`Gt` and `Lt` are for whole numbers."""
    try:
        have, bound = int(found or ""), int(requirement.values[0])
    except ValueError:
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
