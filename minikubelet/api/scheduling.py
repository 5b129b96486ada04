"""Where a cluster's scheduler would put a pod. One host schedules nothing: only what chooses nodes is acted on."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int32, Int64, Object
from minikubelet.api.support import NO_CLUSTER


class LabelSelectorRequirement(Object):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Object):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Object):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Object):
    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredSchedulingTerm(Object):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Object):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], NO_CLUSTER
    ] = ()


class PodAffinityTerm(Object):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Object):
    """Also pod anti-affinity: the two have the same fields."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Object):
    node_affinity: NodeAffinity | None = None
    pod_affinity: Annotated[PodAffinity | None, NO_CLUSTER] = None
    pod_anti_affinity: Annotated[PodAffinity | None, NO_CLUSTER] = None


class Toleration(Object):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TopologySpreadConstraint(Object):
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGroup(Object):
    pod_group_name: str | None = None


class PodSchedulingGate(Object):
    name: str


class PodReadinessGate(Object):
    condition_type: str
