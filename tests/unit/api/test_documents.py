"""Text to documents: YAML 1.1 as Kubernetes reads it, lines, anchors, JSON."""

import math

import pytest
import yaml

from minikubelet.api import documents
from minikubelet.api.documents import Mapping, Node, Scalar, Sequence, read_documents
from minikubelet.api.places import Unread, line_of, steps_of
from minikubelet.api.scalars import describe, quoted, resolve
from minikubelet.api.schema import plain

TRUE = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]
FALSE = ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]


def root_of(text: str, *, is_json: bool = False) -> Node:
    read = read_documents(text.encode(), is_json=is_json)
    assert read.errors == ()
    (document,) = read.documents
    return document.root


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, True) for word in TRUE],
        *[(word, False) for word in FALSE],
        *[(word, word) for word in ("yES", "tRue", "yeS", "None", "none", "NUll", "t", "f")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        ("0", 0),
        ("-17", -17),
        ("+3", 3),
        ("0644", 420),
        ("0o644", 420),
        ("-010", -8),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("08", 8.0),
        ("0b2", "0b2"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("22:22", "22:22"),
        ("190:20:30", "190:20:30"),
        ("2001-12-14", "2001-12-14"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("1.2.3", "1.2.3"),
        ("100m", "100m"),
        ("64Mi", "64Mi"),
        ("-", "-"),
        ("=", "="),
        ("9" * 65, "9" * 65),
    ],
)
def test_a_bare_word_means_what_kubernetes_takes_it_for(text: str, value: object) -> None:  # IN-2
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_number() -> None:
    found = resolve(".NaN")
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize("text", ['"yes"', "'yes'", "!!str yes", "! yes", "|-\n  yes", ">-\n  yes"])
def test_what_is_quoted_or_tagged_is_text(text: str) -> None:
    assert plain(root_of(f"a: {text}\n")) == {"a": "yes"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!int 3", 3),
        ('!!int "3"', 3),
        ("!!bool yes", True),
        ("!!float 3", 3.0),
        ("!!null ~", None),
        ("!!map {}", {}),
        ("!!seq []", []),
    ],
)
def test_standard_tags_are_understood(text: str, value: object) -> None:
    assert plain(root_of(f"a: {text}\n")) == {"a": value}


def test_every_node_knows_its_line() -> None:
    root = root_of("a: 1\nb:\n  - x\n  -\n    c: {d: e}\n")
    lines = {path: line_of(root, path) for path in ("a", "b", "b[0]", "b[1]", "b[1].c.d", "b[7]", "b[0].x", "z")}
    assert lines == {"a": 1, "b": 2, "b[0]": 3, "b[1]": 5, "b[1].c.d": 5, "b[7]": 2, "b[0].x": 3, "z": 1}


def test_lines_count_from_the_beginning_of_the_file_in_every_document() -> None:
    read = read_documents(b"a: 1\n---\n# c\n\n---\nb: 2\n")
    assert [(document.number, document.root.line) for document in read.documents] == [(1, 1), (3, 6)]


def test_anchors_and_merge_keys_fill_in_what_is_not_written() -> None:
    text = "x: &x {a: 1, b: 2}\nu: &y {b: 3, c: 4}\nz:\n  <<: [*x, *y]\n  a: 0\nw:\n  <<: *y\nv: [*x]\n"
    value = plain(root_of(text))
    assert value["z"] == {"a": 0, "b": 2, "c": 4}
    assert value["w"] == {"b": 3, "c": 4}
    assert value["v"] == [{"a": 1, "b": 2}]


def test_many_small_aliases_are_fine() -> None:
    text = "env: &env [{name: A, value: b}]\nall:\n" + "- *env\n" * 1000
    assert len(plain(root_of(text))["all"]) == 1000


def test_whole_numbers_as_keys_are_text() -> None:
    assert plain(root_of("8080: web\n")) == {"8080": "web"}


@pytest.mark.parametrize("key", ["yes", "1e3", "0x1f", "~", "010"])
def test_other_values_as_keys_ask_for_quotes(key: str) -> None:
    (error,) = read_documents(f"a:\n  {key}: x\n".encode()).errors
    assert (error.line, error.path) == (2, f"a.{key}")
    assert error.message.startswith("Invalid key: YAML reads ")


def test_a_collection_is_no_key_even_by_an_alias() -> None:
    (error,) = read_documents(b"a: &a {b: c}\n*a : d\n").errors
    assert (error.line, error.message) == (2, "a key has to be a plain text")


def test_json_keeps_lines_and_characters_outside_the_basic_plane() -> None:
    root = root_of(
        '{\n\t"a": "\\ud83d\\ude00 \\u00e4 \\/ \\\\ud83d",\n\t"b": [1.5, true, null, "yes"]\n}\n', is_json=True
    )
    assert plain(root) == {"a": "😀 ä / \\ud83d", "b": [1.5, True, None, "yes"]}
    assert line_of(root, "b") == 3


def test_json_in_a_yaml_file_may_have_pairs_of_escapes_and_several_documents() -> None:
    read = read_documents(b'{"a": "\\ud83d\\ude00"}\n---\n{"b":\t1}\n')
    assert [plain(document.root) for document in read.documents] == [{"a": "😀"}, {"b": 1}]


def test_a_byte_order_mark_is_nothing() -> None:
    assert plain(root_of("\ufeffa: 1\n")) == {"a": 1}
    assert plain(root_of('\ufeff{"a": 1}', is_json=True)) == {"a": 1}


def test_windows_line_ends_are_fine() -> None:
    root = root_of("a: 1\r\nb:\r\n- x\r\n")
    assert plain(root) == {"a": 1, "b": ["x"]}
    assert line_of(root, "b[0]") == 3


def test_the_python_parser_of_pyyaml_serves_where_the_c_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_Loader", yaml.SafeLoader)
    assert plain(root_of("a: &a [yes, 0644]\nb: *a\n")) == {"a": [True, 420], "b": [True, 420]}
    (error,) = read_documents(b"a: [\n").errors
    assert error.message.startswith("not valid YAML: ")


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("spec.containers[0].name", ("spec", "containers", "0", "name")),
        ("metadata.labels[a.b/c]", ("metadata", "labels", "a.b/c")),
        ("kind", ("kind",)),
        ("", ()),
    ],
)
def test_paths_have_steps(path: str, steps: tuple[str, ...]) -> None:
    assert steps_of(path) == steps


@pytest.mark.parametrize(
    ("path", "concerned"),
    [
        ("spec.a", True),
        ("spec.a[1]", True),
        ("spec.a[1].b", True),
        ("spec.a[1].b.c", True),
        ("spec.a[1].d", False),
        ("spec.a[10]", False),
        ("spec.ab", False),
        ("", True),
    ],
)
def test_what_could_not_be_read_concerns_what_holds_it_and_what_it_holds(path: str, *, concerned: bool) -> None:
    assert Unread(["spec.a[1].b", "kind"]).concerns(path) is concerned


def test_nodes_are_described_for_people() -> None:
    assert describe(None, "") == "null"
    assert describe(value=True, text="yes") == "the boolean yes"
    assert describe(420, "0644") == "the number 0644"
    assert describe("x" * 100, "") == f'the string "{"x" * 57}..."'
    assert quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'


def test_kinds_of_nodes() -> None:
    root = root_of("a: [b]\n")
    assert isinstance(root, Mapping)
    assert isinstance(root.items["a"], Sequence)
    assert isinstance(root.items["a"].items[0], Scalar)
