from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minikubelet.runtime.archive_contents import Contents, read_contents
from minikubelet.runtime.archive_file import ArchiveError, survey

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class Layout:
    """An OCI layout in the making."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def blob(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, layers: tuple[bytes, ...] = (b"layer",)) -> dict[str, Any]:
        manifest = {"config": self.blob(CONFIG, b"{}"), "layers": [self.blob(LAYER, layer) for layer in layers]}
        return self.blob(MANIFEST, json.dumps(manifest).encode())

    def read(self, *entries: dict[str, Any]) -> Contents:
        self.files["index.json"] = json.dumps({"manifests": entries}).encode()
        return read(self.files)


def read(files: dict[str, bytes], *, architecture: str = "") -> Contents:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    return read_contents(survey(buffer), architecture=architecture)


def named(descriptor: dict[str, Any], **annotations: str) -> dict[str, Any]:
    keys = {"name": "io.containerd.image.name", "ref": "org.opencontainers.image.ref.name"}
    return {**descriptor, "annotations": {keys[key]: value for key, value in annotations.items()}}


def test_a_layout_gives_children_before_parents_and_references_against_garbage_collection() -> None:
    layout = Layout()
    image = layout.image((b"one", b"two"))
    contents = layout.read(named(image, name="docker.io/library/x:1"))
    digests = [blob.digest for blob in contents.blobs]
    assert digests[-1] == image["digest"]
    assert contents.blobs[-1].labels == {
        "containerd.io/gc.ref.content.config": digests[0],
        "containerd.io/gc.ref.content.l.0": digests[1],
        "containerd.io/gc.ref.content.l.1": digests[2],
    }
    assert [(i.name, i.digest, i.media_type) for i in contents.images] == [
        ("docker.io/library/x:1", image["digest"], MANIFEST)
    ]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"name": "busybox:1.36"}, "docker.io/library/busybox:1.36"),
        ({"ref": "example.com/app:2"}, "example.com/app:2"),
        ({"name": "a/b", "ref": "9"}, "docker.io/a/b:latest"),
    ],
)
def test_names_are_made_full(annotations: dict[str, str], expected: str) -> None:
    layout = Layout()
    assert layout.read(named(layout.image(), **annotations)).images[0].name == expected


def test_several_names_of_one_image_share_its_blobs() -> None:
    layout = Layout()
    image = layout.image()
    contents = layout.read(named(image, name="x:1"), named(image, name="x:2"))
    assert len(contents.blobs) == 3
    assert [i.name for i in contents.images] == ["docker.io/library/x:1", "docker.io/library/x:2"]


def test_an_index_refers_to_the_manifests_that_are_there_and_leaves_out_other_platforms() -> None:
    layout = Layout()
    here = layout.image()
    elsewhere = {"mediaType": MANIFEST, "digest": "sha256:" + "0" * 64, "size": 1}
    index = layout.blob(INDEX, json.dumps({"manifests": [elsewhere, here]}).encode())
    contents = layout.read(named(index, name="x:1"))
    assert contents.blobs[-1].labels == {"containerd.io/gc.ref.content.m.1": here["digest"]}


def _indexes(layout: Layout, below: dict[str, Any], *, levels: int, fan: int = 1) -> dict[str, Any]:
    """Indexes in indexes, each referring to the one below it so often."""
    for _ in range(levels):
        below = layout.blob(INDEX, json.dumps({"manifests": [below] * fan}).encode())
    return below


def test_what_is_referred_to_in_many_ways_is_read_once() -> None:
    layout = Layout()
    top = _indexes(layout, layout.image(), levels=8, fan=1000)
    contents = layout.read(named(top, name="x:1"))
    assert len(contents.blobs) == 3 + 8


@pytest.mark.parametrize("levels", [9, 2000])
def test_indexes_in_indexes_have_an_end(levels: int) -> None:
    layout = Layout()
    with pytest.raises(ArchiveError, match="indexes in indexes, more than 8 deep"):
        layout.read(named(_indexes(layout, layout.image(), levels=levels), name="x:1"))


def _many_layers(layout: Layout) -> list[dict[str, Any]]:
    manifest = {"config": layout.blob(CONFIG, b"{}"), "layers": [layout.blob(LAYER, b"l")] * 10_001}
    return [named(layout.blob(MANIFEST, json.dumps(manifest).encode()), name="x:1")]


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        pytest.param(
            lambda it: [named(it.image(), name="x:1")] * 10_001, "refers to more than 10000", id="entries of index.json"
        ),
        pytest.param(
            lambda it: [named(_indexes(it, it.image(), levels=1, fan=10_001), name="x:1")],
            "refers to more than 10000",
            id="entries of an index",
        ),
        pytest.param(_many_layers, "refers to more than 10000", id="layers"),
        pytest.param(lambda it: [named(it.image(), name="x:1")] * 1001, "names more than 1000 images", id="names"),
    ],
)
def test_a_layout_refers_to_no_more_than_makes_sense(
    entries: Callable[[Layout], list[dict[str, Any]]], problem: str
) -> None:
    layout = Layout()
    with pytest.raises(ArchiveError, match=problem):
        layout.read(*entries(layout))


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param([{"Config": "c", "RepoTags": ["x:1"], "Layers": ["l"] * 10_001}], id="layers"),
        pytest.param([{"Config": "c", "RepoTags": ["x:1"], "Layers": []}] * 10_001, id="images"),
        pytest.param([{"Config": "c", "RepoTags": ["x:1"] * 10_001, "Layers": []}], id="tags"),
    ],
)
def test_a_docker_archive_refers_to_no_more_than_makes_sense(saved: list[dict[str, Any]]) -> None:
    with pytest.raises(ArchiveError, match="refers to more than 10000"):
        read({"manifest.json": json.dumps(saved).encode(), "c": b"{}", "l": b"x"})


@pytest.mark.parametrize(
    "text", [b'{"manifests":' + b"[" * 100_000, b'{"x":' + b'{"x":' * 100_000, b'{"manifests":"\xff"}']
)
def test_json_that_is_nested_or_no_text_is_told(text: bytes) -> None:
    with pytest.raises(ArchiveError, match="is damaged"):
        read({"index.json": text})


def test_a_docker_archive_gets_a_manifest_of_its_own() -> None:
    files = {
        "manifest.json": json.dumps(
            [{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l/layer.tar", "z/layer.tar"]}]
        ).encode(),
        "c.json": b"{}",
        "l/layer.tar": b"plain",
        "z/layer.tar": b"\x1f\x8bpacked",
    }
    contents = read(files)
    manifest = json.loads(contents.blobs[-1].data or b"")
    assert [layer["mediaType"].rsplit(".", 2)[-2:] for layer in manifest["layers"]] == [
        ["diff", "tar"],
        ["tar", "gzip"],
    ]
    assert manifest["config"]["digest"] == "sha256:" + hashlib.sha256(b"{}").hexdigest()
    assert contents.images[0].digest == contents.blobs[-1].digest
    assert contents.images[0].name == "docker.io/library/x:1"


def test_a_layer_that_a_docker_archive_names_twice_is_written_once() -> None:
    entry = {"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l", "l"]}
    contents = read({"manifest.json": json.dumps([entry]).encode(), "c.json": b"{}", "l": b"x"})
    assert len(contents.blobs) == 3


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        pytest.param({"index.json": None}, "neither an OCI layout", id="no index"),
        pytest.param({"blob": None}, "is missing", id="a blob is missing"),
    ],
)
def test_what_is_wrong_with_a_layout_is_told(spoil: dict[str, None], problem: str) -> None:
    layout = Layout()
    image = layout.image()
    layout.files["index.json"] = json.dumps({"manifests": [named(image, name="x")]}).encode()
    victim = next(iter(spoil)) if "blob" not in spoil else next(iter(layout.files))
    del layout.files[victim]
    with pytest.raises(ArchiveError, match=problem):
        read(layout.files)


def test_a_blob_whose_content_is_another_is_told() -> None:
    layout = Layout()
    image = layout.image((b"one",))
    layer = "blobs/sha256/" + hashlib.sha256(b"one").hexdigest()
    layout.files[layer] = b"two"
    with pytest.raises(ArchiveError, match=f"blob sha256:{layer[-64:]} is damaged"):
        layout.read(named(image, name="x:1"))


@pytest.mark.parametrize("layers", ["l/layer.tar", "z/layer.tar"])
def test_a_layer_of_a_docker_archive_is_held_to_what_its_configuration_says(layers: str) -> None:
    config = {"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}
    files = {
        "manifest.json": json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": [layers]}]).encode(),
        "c.json": json.dumps(config).encode(),
        "l/layer.tar": b"plain",
        "z/layer.tar": b"\x1f\x8bpacked, so that nothing can be said of it",
    }
    if layers == "l/layer.tar":
        with pytest.raises(ArchiveError, match=r"layer l/layer\.tar is damaged"):
            read(files)
    else:
        assert read(files).images


def test_a_layout_without_names_may_have_them_in_its_docker_manifest() -> None:
    layout = Layout()
    image = layout.image((b"one",))
    parts = [name for name in layout.files if name[-64:] != image["digest"][-64:]]
    config, layer = sorted(parts, key=lambda name: layout.files[name] != b"{}")
    saved = [{"Config": config, "RepoTags": ["x:1"], "Layers": [layer]}]
    layout.files["manifest.json"] = json.dumps(saved).encode()
    assert [i.name for i in layout.read(image).images] == ["docker.io/library/x:1"]


@pytest.mark.parametrize("annotations", [{}, {"ref": "1.36"}])
def test_an_image_without_a_name_cannot_be_loaded(annotations: dict[str, str]) -> None:
    layout = Layout()
    with pytest.raises(ArchiveError, match=r"no image in it has a name \(annotation io.containerd.image.name"):
        layout.read(named(layout.image(), **annotations))


def test_a_bad_name_is_told() -> None:
    layout = Layout()
    with pytest.raises(ArchiveError, match="must be lowercase"):
        layout.read(named(layout.image(), name="UPPER:1"))


@pytest.mark.parametrize(
    ("made_for", "host", "fits"),
    [
        ("amd64", "x86_64", True),
        ("386", "x86_64", True),
        ("arm", "aarch64", True),
        ("arm64", "x86_64", False),
        ("riscv64", "riscv64", True),
        ("amd64", "riscv64", False),
        ("", "x86_64", True),
        ("arm64", "", True),
    ],
)
def test_an_image_of_several_platforms_has_to_be_made_for_this_one(made_for: str, host: str, fits: bool) -> None:
    layout = Layout()
    config = layout.blob(CONFIG, json.dumps({"architecture": made_for}).encode())
    manifest = layout.blob(MANIFEST, json.dumps({"config": config, "layers": []}).encode())
    index = layout.blob(INDEX, json.dumps({"manifests": [manifest]}).encode())
    layout.files["index.json"] = json.dumps({"manifests": [named(index, name="x:1")]}).encode()
    if fits:
        assert read(layout.files, architecture=host).images
    else:
        with pytest.raises(ArchiveError, match=f"x:1 is made for {made_for}, and not for "):
            read(layout.files, architecture=host)
    layout.files["index.json"] = json.dumps({"manifests": [named(manifest, name="x:1")]}).encode()
    assert read(layout.files, architecture=host).images, "a lone manifest is run as it is"


def test_an_index_without_any_of_its_manifests_is_told() -> None:
    layout = Layout()
    absent = {"mediaType": MANIFEST, "digest": "sha256:" + "0" * 64, "size": 1}
    index = layout.blob(INDEX, json.dumps({"manifests": [absent]}).encode())
    with pytest.raises(ArchiveError, match="none of its manifests"):
        layout.read(named(index, name="x"))


def test_the_archive_that_the_tests_build_is_the_same_each_time(tmp_path: Path) -> None:
    images = pytest.importorskip("tests.support.images")
    try:
        images.static_busybox()
    except SystemExit as missing:
        pytest.skip(str(missing))
    first = images.write_archive(tmp_path / "a.tar").read_bytes()
    assert images.write_archive(tmp_path / "b.tar").read_bytes() == first
