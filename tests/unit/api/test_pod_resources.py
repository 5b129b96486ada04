"""What a pod says of its resources as a whole, and of its priority, as a manifest (IN-9, LR-8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minikubelet.api.decode import DecodedFile, decode_file
from minikubelet.api.pod import PodSpec


def decoded(container: dict[str, Any] | None = None, **spec: Any) -> DecodedFile:
    containers = [{"name": "main", "image": "busybox", **(container or {})}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}
    return decode_file("web.json", json.dumps(pod).encode(), node_name="node")


def spec_of(container: dict[str, Any] | None = None, **spec: Any) -> PodSpec:
    file = decoded(container, **spec)
    assert file.errors == ()
    found: PodSpec = file.objects[0].spec
    return found


@pytest.mark.parametrize(
    ("whole", "asked", "expected"),
    [
        pytest.param({"limits": {"cpu": "2"}}, {}, {"cpu": "2"}, id="IN-9 the limit"),
        pytest.param({"limits": {"cpu": "2"}}, {"cpu": "500m"}, {"cpu": "500m"}, id="IN-9 what containers ask for"),
        pytest.param(
            {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": "500m"}, {"cpu": "1"}, id="IN-9 given"
        ),
        pytest.param({"limits": {"cpu": "2"}}, {"memory": "1536Mi"}, {"cpu": "2", "memory": "1536Mi"}, id="IN-9 other"),
        pytest.param({"requests": {"cpu": "1"}}, {"memory": "1Gi"}, None, id="IN-9 without limits nothing is added"),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}, {}, {"hugepages-2Mi": "4Mi", "cpu": "1"}, id="IN-9 pages"
        ),
    ],
)
def test_requests_that_are_left_out_beside_limits(
    whole: dict[str, Any], asked: dict[str, str], expected: dict[str, str] | None
) -> None:
    file = decoded({"resources": {"requests": asked}}, resources=whole)
    if expected is None:
        assert [error.path for error in file.errors] == ["spec.resources.requests[memory]"]
    else:
        assert file.objects[0].spec.resources.requests == expected


def test_quantities_of_the_pod_are_shown_in_one_way() -> None:
    spec = spec_of(resources={"limits": {"memory": "1024Mi"}}, overhead={"cpu": "1000m"})
    assert spec.resources is not None
    assert spec.resources.limits == {"memory": "1Gi"}
    assert spec.overhead == {"cpu": "1"}


def test_a_priority_class_that_means_nothing_here_is_named() -> None:
    file = decoded(priorityClassName="gold")
    assert [str(note) for note in file.notes] == [
        "web.json:1: spec.priorityClassName gold has no meaning without a cluster"
    ]
    assert file.objects[0].spec.priority_class_name == "gold"


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_a_critical_priority_class_needs_no_word(name: str) -> None:
    assert decoded(priorityClassName=name).notes == ()


def test_a_priority_class_has_a_name_as_objects_have() -> None:
    (error,) = decoded(priorityClassName="Gold!").errors
    assert error.path == "spec.priorityClassName"
