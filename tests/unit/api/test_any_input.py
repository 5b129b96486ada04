"""Whatever stands in the folder, decoding gives objects or errors, and never raises."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from minikubelet.api.base import Object
from minikubelet.api.decode import decode_file
from minikubelet.api.pod import Pod
from minikubelet.api.support import matrix, structs_in

NAMES = sorted({row.path.rsplit(".", 1)[-1] for row in matrix(Pod)})

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["Always", "1Gi"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)
yaml_text = st.text(alphabet="ab:-? {}[],&*!|>'\"%@`#\n\t 01~<y.\\\x85\u2028é", max_size=80)


def of_struct(cls: type[Object], depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have a struct's own fields, with values of any kind."""
    fields = {}
    for field in msgspec.structs.fields(cls):
        children = list(structs(field.type))
        if children and depth:
            inner = of_struct(children[0], depth - 1)
            fields[field.encode_name] = inner | st.lists(inner, max_size=2) | values
        else:
            fields[field.encode_name] = values
    return st.fixed_dictionaries({}, optional=fields)


def structs(annotation: Any) -> list[type[Object]]:
    return [cls for cls, _ in structs_in(annotation)]


def decode_bytes(data: bytes, name: str = "x.yaml") -> None:
    decoded = decode_file(name, data, node_name="node")
    for error in decoded.errors:
        assert error.line >= 1
        assert error.message
        assert str(error).startswith(f"{name}:{error.line}: ")
    assert len(decoded.origins) == len(decoded.objects)


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf\x00")
def test_random_bytes_never_raise(data: bytes) -> None:
    decode_bytes(data)
    decode_bytes(data, "x.json")


@given(yaml_text)
def test_random_yaml_never_raises(text: str) -> None:
    decode_bytes(text.encode())
    decode_bytes(f"apiVersion: v1\nkind: Pod\nspec: {text}".encode())


@given(values)
def test_random_objects_never_raise(value: Any) -> None:
    data = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": value})
    decode_bytes(data.encode())
    decode_bytes(data.encode(), "x.json")


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(of_struct(Pod, 4))
def test_objects_with_the_right_names_and_wrong_values_never_raise(value: dict[str, Any]) -> None:
    decode_bytes(json.dumps({**value, "apiVersion": "v1", "kind": "Pod"}).encode())


def shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], data) for key in data.draw(st.permutations(sorted(value)))}
    return [shuffled(item, data) for item in value] if isinstance(value, list) else value


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"a": "1", "b": "2", "c": "3"}, "annotations": {"x": "1", "y": "2"}},
    "spec": {
        "restartPolicy": "Never",
        "hostname": "web",
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1m", "memory": "1Mi"}},
                "env": [{"name": "A", "value": "b"}, {"name": "B", "value": "c"}],
            }
        ],
    },
}


@settings(max_examples=30)
@given(st.data())
def test_the_order_of_keys_does_not_change_the_uid(data: st.DataObject) -> None:  # LC 12.3
    (expected,) = decode_file("x.json", json.dumps(POD).encode(), node_name="node").objects
    (pod,) = decode_file("x.json", json.dumps(shuffled(POD, data)).encode(), node_name="node").objects
    assert pod.metadata.uid == expected.metadata.uid
