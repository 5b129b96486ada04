"""Whether a pod's node selector and required node affinity choose a node (AD-1)."""

from __future__ import annotations

from typing import Any

import pytest

from minikubelet.node.selectors import matches_node
from tests.unit.runtime.build import pod

LABELS = {"disk": "ssd", "zone": "a", "size": "10", "rev": "x1"}


def _requires(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return _requires({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]})


def _field(operator: str, value: str) -> dict[str, Any]:
    return _requires({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [value]}]})


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
HDD = {"key": "disk", "operator": "In", "values": ["hdd"]}


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ({}, True),
        ({"nodeSelector": {"disk": "ssd", "zone": "a"}}, True),
        ({"nodeSelector": {"disk": "ssd", "zone": "b"}}, False),
        ({"nodeSelector": {"gpu": ""}}, False),
        ({"affinity": {}}, True),
        ({"affinity": {"nodeAffinity": {}}}, True),
        (_expression("disk", "In", "hdd", "ssd"), True),
        (_expression("disk", "In", "hdd"), False),
        (_expression("gpu", "In", "yes"), False),
        (_expression("disk", "NotIn", "hdd"), True),
        (_expression("disk", "NotIn", "ssd"), False),
        (_expression("gpu", "NotIn", "yes"), True),
        (_expression("disk", "Exists"), True),
        (_expression("gpu", "Exists"), False),
        (_expression("gpu", "DoesNotExist"), True),
        (_expression("disk", "DoesNotExist"), False),
        (_expression("size", "Gt", "9"), True),
        (_expression("size", "Gt", "10"), False),
        (_expression("size", "Lt", "11"), True),
        (_expression("size", "Lt", "10"), False),
        (_expression("rev", "Gt", "0"), False),
        (_expression("size", "Gt", "x"), False),
        (_expression("gpu", "Lt", "9"), False),
        (_field("In", "edge-1"), True),
        (_field("In", "edge-2"), False),
        (_field("NotIn", "edge-2"), True),
        (_requires({"matchExpressions": [HDD]}, {"matchExpressions": [SSD]}), True),  # one term is enough
        (_requires({"matchExpressions": [SSD, HDD]}), False),  # of a term everything counts
        (_requires({}), False),  # a term that says nothing chooses nothing
        ({"nodeSelector": {"disk": "ssd"}, **_expression("zone", "In", "b")}, False),  # both count
    ],
)
def test_the_node_is_chosen(spec: dict[str, Any], *, chosen: bool) -> None:
    assert matches_node(pod(**spec).spec, name="edge-1", labels=LABELS) is chosen
