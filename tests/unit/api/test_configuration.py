"""ConfigMaps and Secrets: what they hold once decoded, and that nothing ever shows a secret's values."""

import base64
import json
from typing import Any

import pytest

from minikubelet.api.configuration import ConfigMap, Secret, config_map_files, secret_files
from minikubelet.api.decode import decode_file, update_problems
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import NotFoundError, Objects

CORRECT_HORSE = "correct-horse-battery"


def decoded(kind: str, **fields: Any) -> Any:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}
    found = decode_file("x.json", json.dumps(document).encode(), node_name="node")
    assert found.errors == ()
    return found.objects[0]


def errors_of(kind: str, **fields: Any) -> list[str]:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **fields}
    found = decode_file("x.json", json.dumps(document).encode(), node_name="node")
    return [str(error).removeprefix("x.json:1: ") for error in found.errors]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_config_map_has_text_and_binary_content_in_the_default_namespace() -> None:
    found = decoded("ConfigMap", data={"a": "b\n", "empty": ""}, binaryData={"z": encoded(b"\xff\x00")})
    assert isinstance(found, ConfigMap)
    assert (found.metadata.namespace, found.immutable) == ("default", None)
    assert config_map_files(found) == {"a": b"b\n", "empty": b"", "z": b"\xff\x00"}


def test_a_secrets_plain_text_wins_over_its_data() -> None:
    found = decoded("Secret", data={"a": encoded(b"old"), "b": encoded(b"\xfe")}, stringData={"a": "new"})
    assert isinstance(found, Secret)
    assert found.type == "Opaque"
    assert secret_files(found) == {"a": b"new", "b": b"\xfe"}
    assert found.string_data == {}


def test_base64_may_be_broken_into_lines() -> None:
    assert secret_files(decoded("Secret", data={"a": "aGVs\nbG8=\r\n"})) == {"a": b"hello"}


def test_a_secret_is_not_shown_where_it_is_printed() -> None:
    found = decoded("Secret", stringData={"password": CORRECT_HORSE})
    assert repr(found) == str(found) == "Secret(default/x, keys: password)"
    assert repr((found,)) == "(Secret(default/x, keys: password),)"


@pytest.mark.parametrize(
    "fields",
    [
        {"data": {"k": CORRECT_HORSE}},
        {"data": CORRECT_HORSE},
        {"data": [CORRECT_HORSE]},
        {"stringData": {"k": [CORRECT_HORSE]}},
        {"stringData": {"k": {CORRECT_HORSE: 1}}},
        {"stringData": CORRECT_HORSE},
        {"stringData": {".dockerconfigjson": CORRECT_HORSE}, "type": "kubernetes.io/dockerconfigjson"},
    ],
)
def test_no_error_repeats_a_secrets_value(fields: dict[str, Any]) -> None:
    errors = errors_of("Secret", **fields)
    assert errors
    assert not [error for error in errors if CORRECT_HORSE in error]


@pytest.mark.parametrize("wrong", ["*correct-horse-battery", "!correct-horse-battery x", "!!int correct-horse-battery"])
@pytest.mark.parametrize("kind", ["Secret", "'Secret'", '"Secret"'])
def test_no_error_of_syntax_repeats_it_either(kind: str, wrong: str) -> None:
    text = f"kind: {kind}\napiVersion: v1\nstringData: {{k: {wrong}}}\n"
    (error,) = decode_file("x.yaml", text.encode(), node_name="node").errors
    assert CORRECT_HORSE not in error.message


@pytest.mark.parametrize(
    ("kind", "field", "path"),
    [("ConfigMap", "data", ""), ("ConfigMap", "binaryData", ""), ("Secret", "data", "data: ")],
)
def test_all_values_together_are_at_most_a_mebibyte(kind: str, field: str, path: str) -> None:
    def of(count: int) -> list[str]:
        half = "x" * (count // 2)
        values = [half, "x" * (count - len(half))]
        texts = values if field == "data" and kind == "ConfigMap" else [encoded(text.encode()) for text in values]
        return errors_of(kind, **{field: dict(zip("ab", texts, strict=True))})

    assert of(1 << 20) == []
    assert of((1 << 20) + 1) == [f"{path}Too long: may not be more than 1048576 bytes"]


IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


@pytest.mark.parametrize(
    ("kind", "before", "now", "expected"),
    [
        ("ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}, []),
        ("ConfigMap", {"data": {"a": "1"}, "immutable": True}, {"data": {"a": "1"}, "immutable": True}, []),
        (
            "ConfigMap",
            {"data": {"a": "1"}, "immutable": True},
            {"data": {"a": "2"}, "binaryData": {"b": ""}, "immutable": True},
            [f"data: {IMMUTABLE}", f"binaryData: {IMMUTABLE}"],
        ),
        ("ConfigMap", {"immutable": True}, {"immutable": False}, [f"immutable: {IMMUTABLE}"]),
        ("ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "1"}, "immutable": True}, []),
        ("Secret", {"stringData": {"a": "1"}, "immutable": True}, {"immutable": True}, [f"data: {IMMUTABLE}"]),
        ("Secret", {"immutable": True}, {}, [f"immutable: {IMMUTABLE}"]),
        ("Secret", {"stringData": {"a": "1"}}, {"stringData": {"a": "2"}}, []),
        ("Secret", {"type": "a/b"}, {"type": "a/c"}, ['type: Invalid value: "a/c": field is immutable']),
    ],
)
def test_what_is_immutable_does_not_change(
    kind: str, before: dict[str, Any], now: dict[str, Any], expected: list[str]
) -> None:
    problems = update_problems(decoded(kind, **before), decoded(kind, **now))
    assert [f"{problem.path}: {problem.message}" for problem in problems] == expected


def test_what_is_looked_up_and_not_there_is_named_in_the_references_words() -> None:
    objects = Objects(config_maps={("a", "c"): ConfigMap(metadata=ObjectMeta(name="c", namespace="a"))})
    assert objects.config_map("a", "c").metadata.name == "c"
    with pytest.raises(NotFoundError, match=r'^configmap "c" not found$'):
        objects.config_map("b", "c")
    with pytest.raises(NotFoundError, match=r'^secret "s" not found$'):
        objects.secret("a", "s")


def test_ev_7_a_key_of_a_file_is_refused_by_name() -> None:  # D-3
    source = {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}
    container = {"name": "m", "image": "x", "env": [{"name": "A", "valueFrom": source}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    (error,) = decode_file("x.json", json.dumps(document).encode(), node_name="node").errors
    assert (error.path, error.message) == (
        "spec.containers[0].env[0].valueFrom.fileKeyRef",
        "Forbidden: not supported by this agent: mount the volume, and have the container's command read the file",
    )
