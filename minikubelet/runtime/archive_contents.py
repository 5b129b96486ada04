"""What an image archive holds: blobs to write, names to give. Reads OCI layouts and what `docker save` writes.

`archive.import_archive` is the only caller. Pure reading: nothing here knows gRPC.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from typing import Any

import msgspec

from minikubelet.api import image_name

_CHUNK = 1 << 20
_REF = "containerd.io/gc.ref.content"
_DOCKER = "application/vnd.docker"
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json")
_NAME_KEY = "io.containerd.image.name"
_REF_KEY = "org.opencontainers.image.ref.name"


class ArchiveError(Exception):
    """The file is not an image archive, or not a whole one. The text says what is wrong with it."""


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob to be: bytes at hand, or a member of the tar. `labels` are its references for garbage collection."""

    digest: str
    size: int
    data: bytes | None = None
    member: str = ""
    labels: Mapping[str, str] = {}


class NamedImage(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    media_type: str
    digest: str
    size: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written (children before parents) and the names to give."""

    blobs: tuple[Blob, ...]
    images: tuple[NamedImage, ...]


def read_contents(tar: tarfile.TarFile) -> Contents:
    """What an archive holds. Blocking. Raises ArchiveError."""
    members = {member.name.removeprefix("./"): member for member in tar.getmembers()}
    if "index.json" in members:
        return _read_oci(tar, members)
    if "manifest.json" in members:
        return _read_docker(tar, members)
    raise ArchiveError("neither an OCI layout (index.json) nor a docker archive (manifest.json)")


def _read_oci(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> Contents:
    blobs: dict[str, Blob] = {}
    images = []
    for entry in _load(tar, "index.json")["manifests"]:
        _collect_oci(tar, members, entry, blobs)
        if name := _annotated_name(entry.get("annotations") or {}):
            images.append(_named(name, entry))
    if not images:
        raise ArchiveError(f"no image in it has a name (annotation {_NAME_KEY} in index.json)")
    return Contents(blobs=tuple(blobs.values()), images=tuple(images))


def _annotated_name(annotations: Mapping[str, str]) -> str:
    """The name an index entry gives, "" if none. The standard's own key often holds no more than a tag."""
    reference = annotations.get(_REF_KEY, "")
    return annotations.get(_NAME_KEY) or (reference if "/" in reference or ":" in reference else "")


def _named(name: str, descriptor: Mapping[str, Any]) -> NamedImage:
    try:
        full = image_name.parse(image_name.with_default_tag(name))
    except image_name.ImageNameError as error:
        raise ArchiveError(str(error)) from error
    return NamedImage(
        name=str(full), media_type=descriptor["mediaType"], digest=descriptor["digest"], size=descriptor["size"]
    )


def _collect_oci(
    tar: tarfile.TarFile,
    members: Mapping[str, tarfile.TarInfo],
    descriptor: Mapping[str, Any],
    blobs: dict[str, Blob],
) -> None:
    """Add the blob of a manifest or index and all it refers to; children first."""
    digest = descriptor["digest"]
    member = "blobs/" + digest.replace(":", "/")
    if member not in members:
        raise ArchiveError(f"blob {digest} is missing")
    document = _load(tar, member)
    labels = {}
    if descriptor["mediaType"] in _INDEX_TYPES:
        # Archives of one platform often carry an index that still lists the others.
        for i, child in enumerate(document["manifests"]):
            if "blobs/" + child["digest"].replace(":", "/") in members:
                _collect_oci(tar, members, child, blobs)
                labels[f"{_REF}.m.{i}"] = child["digest"]
        if not labels:
            raise ArchiveError(f"index {digest} has none of its manifests in the archive")
    else:
        labels[f"{_REF}.config"] = document["config"]["digest"]
        labels |= {f"{_REF}.l.{i}": layer["digest"] for i, layer in enumerate(document["layers"])}
        for part in (document["config"], *document["layers"]):
            source = "blobs/" + part["digest"].replace(":", "/")
            if source not in members:
                raise ArchiveError(f"blob {part['digest']} is missing")
            blobs.setdefault(part["digest"], Blob(digest=part["digest"], size=part["size"], member=source))
    blobs[digest] = Blob(digest=digest, size=members[member].size, member=member, labels=labels)


def _read_docker(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> Contents:
    blobs: dict[str, Blob] = {}
    images = []
    for entry in _load(tar, "manifest.json"):
        config = _of_member(tar, members, entry["Config"])
        layers = [_of_member(tar, members, layer) for layer in entry["Layers"]]
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_DOCKER}.distribution.manifest.v2+json",
            "config": _descriptor(f"{_DOCKER}.container.image.v1+json", config),
            "layers": [_descriptor(_layer_type(tar, layer), layer) for layer in layers],
        }
        data = json.dumps(manifest, separators=(",", ":")).encode()
        labels = {f"{_REF}.config": config.digest}
        labels |= {f"{_REF}.l.{i}": layer.digest for i, layer in enumerate(layers)}
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs |= {blob.digest: blob for blob in (config, *layers)}
        blobs[digest] = Blob(digest=digest, size=len(data), data=data, labels=labels)
        target = {"mediaType": manifest["mediaType"], "digest": digest, "size": len(data)}
        images += [_named(tag, target) for tag in entry.get("RepoTags") or ()]
    if not images:
        raise ArchiveError("no image in it has a name (RepoTags in manifest.json)")
    return Contents(blobs=tuple(blobs.values()), images=tuple(images))


def _of_member(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> Blob:
    """A blob that is known by file name only: its digest is computed."""
    if name not in members:
        raise ArchiveError(f"{name} is missing")
    digest = hashlib.sha256()
    source = tar.extractfile(members[name])
    if source is None:
        raise ArchiveError(f"{name} is not a file")
    size = 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return Blob(digest=f"sha256:{digest.hexdigest()}", size=size, member=name)


def _layer_type(tar: tarfile.TarFile, layer: Blob) -> str:
    source = tar.extractfile(layer.member)
    packed = source is not None and source.read(2) == b"\x1f\x8b"
    return f"{_DOCKER}.image.rootfs.diff.tar" + (".gzip" if packed else "")


def _descriptor(media_type: str, blob: Blob) -> dict[str, object]:
    return {"mediaType": media_type, "digest": blob.digest, "size": blob.size}


def _load(tar: tarfile.TarFile, name: str) -> Any:
    source = tar.extractfile(name)
    if source is None:
        raise ArchiveError(f"{name} is not a file")
    return json.load(source)
