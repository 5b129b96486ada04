"""Broken manifests: each file of corpus/ gives exactly the errors of the .expected file beside it."""

import json
from pathlib import Path

import pytest

from minikubelet.api.decode import decode_file
from minikubelet.api.manifest_text import MAX_BYTES

CORPUS = Path(__file__).parent / "corpus"
MANIFESTS = sorted(path for path in CORPUS.iterdir() if path.suffix in (".yaml", ".json"))

POD = b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: a, image: busybox}]\n"
BOMB = b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    f"{name}: &{name} [{', '.join(f'*{before}' for _ in range(10))}]\n".encode()
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = b"a: &a {k: [" + b"x, " * 20_000 + b"x]}\nb: &b {<<: *a}\nc: [*b, *b, *b, *b, *b]\n"


def errors_of(name: str, data: bytes) -> list[str]:
    decoded = decode_file(name, data, node_name="node")
    assert all(error.file == name for error in decoded.errors)
    return [str(error).removeprefix(f"{name}:") for error in decoded.errors]


def test_the_corpus_is_large_and_complete() -> None:
    assert len(MANIFESTS) >= 110
    assert {path.name for path in CORPUS.iterdir()} == {
        name for path in MANIFESTS for name in (path.name, f"{path.name}.expected")
    }


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_broken_manifest_gives_all_its_errors_with_their_lines(manifest: Path) -> None:
    expected = manifest.with_name(f"{manifest.name}.expected").read_text().splitlines()
    assert expected, "a manifest of the corpus is broken"
    assert errors_of(manifest.name, manifest.read_bytes()) == expected


@pytest.mark.parametrize(
    ("name", "data", "errors"),
    [
        pytest.param(
            "b.yaml", b"\x7fELF\x02\x01\x01\x00\x00", ["1: the file is binary, not YAML or JSON text"], id="binary"
        ),
        pytest.param("b.yaml", b"\x89PNG\r\n\x00\xff", ["1: the file is binary, not YAML or JSON text"], id="picture"),
        pytest.param("b.json", b'{"a": "\x00"}', ["1: the file is binary, not YAML or JSON text"], id="NUL in JSON"),
        pytest.param(
            "l.yaml",
            b"a: b\nc: caf\xe9\n",
            ["2: the text is not UTF-8 (byte 0xe9); save the file as UTF-8"],
            id="Latin-1",
        ),
        pytest.param(
            "u.yaml",
            POD.decode().encode("utf-16"),
            ["1: the file is encoded as UTF-16 or UTF-32; save it as UTF-8"],
            id="UTF-16",
        ),
        pytest.param(
            "huge.yaml",
            b"#" * MAX_BYTES,
            [f"1: the file has {MAX_BYTES} bytes; a manifest has to be smaller than {MAX_BYTES}"],
            id="huge",
        ),
        pytest.param("d.yaml", b"a: " + b"[" * 500, ["1: nested more than 64 levels deep"], id="deep lists"),
        pytest.param("d.yaml", b"{a: " * 100_000, ["1: nested more than 64 levels deep"], id="very deep mappings"),
        pytest.param(
            "d.yaml",
            b"[" * 100_000,
            ["1: not valid YAML: exceeded maximum nesting depth (while increasing flow level)"],
            id="very deep lists",
        ),
        pytest.param(
            "d.yaml",
            b"\n".join(b" " * depth + b"a:" for depth in range(200)),
            ["65: nested more than 64 levels deep"],
            id="deep mappings",
        ),
        pytest.param(
            "d.json",
            b"[" * 100_000,
            ["1: not valid JSON: it is nested too deeply or has too long a number"],
            id="deep JSON",
        ),
        pytest.param("a.yaml", BOMB, ["5: the document's aliases stand for more than 100000 nodes"], id="alias bomb"),
        pytest.param(
            "m.yaml", MERGE_BOMB, ["3: the document's aliases stand for more than 100000 nodes"], id="merge bomb"
        ),
        pytest.param(
            "n.json", b"9" * 5000, ["1: not valid JSON: it is nested too deeply or has too long a number"], id="digits"
        ),
    ],
)
def test_what_is_no_manifest_at_all_gets_one_plain_message(name: str, data: bytes, errors: list[str]) -> None:
    assert errors_of(name, data) == errors


def test_a_very_long_value_is_cut_in_its_message() -> None:
    (error, _) = errors_of("a.yaml", POD.replace(b"web", b"-" * 100_000))
    assert error == f'3: metadata.name: Invalid value: "{"-" * 1000}...": must be no more than 253 characters'


def test_annotations_have_a_greatest_size() -> None:  # 12/metadata
    data = POD.replace(b"{name: web}", b"{name: web, annotations: {a: " + b"x" * 262_200 + b"}}")
    assert errors_of("a.yaml", data) == ["3: metadata.annotations: Too long: may not be more than 262144 bytes"]


def test_a_search_list_has_a_greatest_length() -> None:  # 12/dns-config
    searches = [f"a{'b' * 60}{n}" for n in range(40)]
    data = POD + f"  dnsConfig: {{searches: [{', '.join(searches)}]}}\n".encode()
    shown = json.dumps(searches, separators=(",", ":"))
    assert errors_of("a.yaml", data) == [
        f"6: spec.dnsConfig.searches: Invalid value: {shown}: must not have more than {most}"
        for most in ("32 search paths", "2048 characters (including spaces) in the search list")
    ]


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"---\n---\n", b"---\n# a\n---\n~\n", b"\xef\xbb\xbf"])
def test_an_empty_file_defines_nothing_and_is_no_error(data: bytes) -> None:
    decoded = decode_file("empty.yaml", data, node_name="node")
    assert (decoded.objects, decoded.errors, decoded.notes) == ((), (), ())


def test_a_good_document_beside_a_bad_one_is_still_decoded() -> None:
    data = POD + b"---\napiVersion: v1\nkind: Pod\n---\n" + POD.replace(b"web", b"web2")
    decoded = decode_file("two.yaml", data, node_name="node")
    assert [pod.metadata.name for pod in decoded.objects] == ["web", "web2"]
    assert {error.document for error in decoded.errors} == {2}
    assert [origin.line for origin in decoded.origins] == [3, 12]


def test_what_stands_before_an_error_of_syntax_is_decoded() -> None:
    decoded = decode_file("half.yaml", POD + b"---\na: [\n", node_name="node")
    assert [pod.metadata.name for pod in decoded.objects] == ["web"]
    assert [(error.document, error.path) for error in decoded.errors] == [(2, "")]


def test_a_document_with_a_duplicate_key_defines_nothing() -> None:
    decoded = decode_file("web.yaml", POD + b"kind: Pod\n", node_name="node")
    assert decoded.objects == ()
