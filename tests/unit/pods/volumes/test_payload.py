"""Which files a volume made of objects and fields has (VO-8, VO-9)."""

from __future__ import annotations

import base64
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import Objects
from minikubelet.api.pod import Volume
from minikubelet.pods.volumes.payload import Sources, UncertainError, payload_of
from minikubelet.pods.volumes.plugin import PluginError
from tests.unit.runtime.build import container, pod

BINARY = base64.b64encode(b"\xff").decode()
META = ObjectMeta(name="c", namespace="default")
OBJECTS = Objects(
    config_maps={
        ("default", "c"): ConfigMap(metadata=META, data={"k": "text", "z": "last"}, binary_data={"bin": BINARY})
    },
    secrets={("default", "s"): Secret(metadata=META, data={"k": base64.b64encode(b"hunter2").decode()})},
)
NOBODYS = {"resource": "limits.cpu", "containerName": "no"}
LABELS = {"b": "2", "a": 'with "quotes"\n'}


def payload(source: dict[str, Any], **changes: Any) -> dict[str, tuple[bytes, int]]:
    volume = msgspec.convert({"name": "v", **source}, Volume)
    limited = container(limits={"cpu": "200m"}, requests={"memory": "1Mi"})
    of = pod(limited, init=(container("side", restartPolicy="Always"),), metadata={"labels": LABELS})
    sources = Sources(pod=of, objects=OBJECTS, allocatable={"cpu": Fraction(4), "memory": Fraction(99)}, **changes)
    return {path: (file.content, file.mode) for path, file in payload_of(volume, sources).items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            {"configMap": {"name": "c"}},
            {"k": (b"text", 0o644), "z": (b"last", 0o644), "bin": (b"\xff", 0o644)},
            id="VO-8 every key, data and binaryData",
        ),
        pytest.param(
            {"configMap": {"name": "c", "defaultMode": 0o400, "items": [{"key": "k", "path": "x/y"}]}},
            {"x/y": (b"text", 0o400)},
            id="VO-8 only the items",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 0o777}]}},
            {"p": (b"hunter2", 0o777)},
            id="VO-8 an item's own mode",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 0}]}},
            {"p": (b"hunter2", 0)},
            id="VO-8 a mode of 0 is one",
        ),
        pytest.param(
            {"secret": {"secretName": "s", "optional": True, "items": [{"key": "no", "path": "p"}]}},
            {},
            id="VO-8 a missing key of something optional is skipped",
        ),
        pytest.param({"configMap": {"name": "no", "optional": True}}, {}, id="VO-8 an optional object that is missing"),
        pytest.param(
            {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}], "defaultMode": 0o440}},
            {"k": (b"hunter2", 0o440), "z": (b"last", 0o440), "bin": (b"\xff", 0o440)},
            id="VO-8 a later source wins",
        ),
    ],
)
def test_files_of_objects(source: dict[str, Any], expected: dict[str, tuple[bytes, int]]) -> None:
    assert payload(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        (
            {"configMap": {"name": "c", "items": [{"key": "no", "path": "p"}]}},
            "configmap references non-existent config key: no",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}},
            "references non-existent secret key: no",
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "no"}}]}},
            'configmap "no" not found',
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "x"}}, {"configMap": {"name": "y"}}]}},
            '[secret "x" not found, configmap "y" not found]',
        ),
        (
            {"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": NOBODYS}]}},
            "container no not found",
        ),
    ],
)
def test_what_is_missing_is_named_in_the_references_words(source: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        payload(source)
    assert str(caught.value) == message


def test_what_is_optional_is_not_given_up_while_a_file_cannot_be_read() -> None:
    with pytest.raises(UncertainError):
        payload({"projected": {"sources": [{"configMap": {"name": "no", "optional": True}}]}}, uncertain=True)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "web"),
        ({"fieldRef": {"fieldPath": "metadata.labels"}}, 'a="with \\"quotes\\"\\n"\nb="2"'),
        ({"fieldRef": {"fieldPath": "metadata.annotations"}}, ""),
        ({"fieldRef": {"fieldPath": "metadata.labels['b']"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "main", "divisor": "1m"}}, "200"),
        ({"resourceFieldRef": {"resource": "limits.memory", "containerName": "main"}}, "99"),
        ({"resourceFieldRef": {"resource": "requests.memory", "containerName": "main", "divisor": "1Ki"}}, "1024"),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "side"}},
            "4",
            id="EV-6 in a volume the node's size stands in for every container",
        ),
    ],
)
def test_vo_9_files_of_the_pods_own_fields(reference: dict[str, Any], expected: str) -> None:
    items = [{"path": "p", **reference}]
    assert payload({"downwardAPI": {"items": items}}) == {"p": (expected.encode(), 0o644)}
    projected = {"projected": {"sources": [{"downwardAPI": {"items": items}}]}}
    assert payload(projected) == {"p": (expected.encode(), 0o644)}
