"""What an image archive holds: blobs to write, names to give. Understands OCI layouts and what `docker save` writes.

Pure: `archive_file.survey` has read the file, `archive.import_archive` writes what comes out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import msgspec

from minikubelet.api import image_name
from minikubelet.runtime.archive_file import GZIP, ZSTD, ArchiveError, Member

_REF = "containerd.io/gc.ref.content"
_DOCKER = "application/vnd.docker"
_INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", f"{_DOCKER}.distribution.manifest.list.v2+json")
_NAME_KEY = "io.containerd.image.name"
_REF_KEY = "org.opencontainers.image.ref.name"
_MOST_LINKS = 8
#: What real archives stay far below: indexes within each other, what all documents refer to, and names.
_DEEPEST, _MOST_REFERENCES, _MOST_NAMES = 8, 10_000, 1_000
#: An image's word for what uname says, and what such a host runs besides its own.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm", "i686": "386"}
_RUNS = {"amd64": frozenset({"amd64", "386"}), "arm64": frozenset({"arm64", "arm"})}

T = TypeVar("T")


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob to be: bytes at hand, or the member at a place of the tar.

    `labels` are its references for garbage collection.
    """

    digest: str
    size: int
    data: bytes | None = None
    place: int = -1
    labels: Mapping[str, str] = {}


class NamedImage(msgspec.Struct, frozen=True, kw_only=True):
    #: In full, as containerd knows it.
    name: str
    media_type: str
    digest: str
    size: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written (children before parents) and the names to give."""

    blobs: tuple[Blob, ...]
    images: tuple[NamedImage, ...]


class _Descriptor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    media_type: str
    digest: str
    size: int
    annotations: dict[str, str] | None = None


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    manifests: tuple[_Descriptor, ...]


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    config: _Descriptor
    layers: tuple[_Descriptor, ...]


class _Saved(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """An image in `manifest.json`."""

    config: str
    layers: tuple[str, ...]
    repo_tags: tuple[str, ...] | None = None


class _RootFs(msgspec.Struct, frozen=True, kw_only=True):
    diff_ids: tuple[str, ...] = ()


class _Config(msgspec.Struct, frozen=True, kw_only=True):
    architecture: str = ""
    rootfs: _RootFs = _RootFs()


def read_contents(members: Mapping[str, Member], *, architecture: str = "") -> Contents:
    """What an archive with these members holds. Raises ArchiveError.

    `architecture`: the host's, as uname has it; an image that is made for others only is refused. Empty: it is not
    looked at.
    """
    unnamed: ArchiveError | None = None
    if "index.json" in members:
        contents = _read_oci(members, architecture)
        if contents.images:
            return contents
        unnamed = ArchiveError(f"no image in it has a name (annotation {_NAME_KEY} in index.json)")
    if "manifest.json" in members:
        contents = _read_docker(members)
        if contents.images:
            return contents
        unnamed = unnamed or ArchiveError("no image in it has a name (RepoTags in manifest.json)")
    raise unnamed or ArchiveError("is neither an OCI layout (index.json) nor a docker archive (manifest.json)")


def _read_oci(members: Mapping[str, Member], architecture: str) -> Contents:
    layout = _Layout(members)
    images = []
    for entry in layout.counted(_load(members, "index.json", _Index).manifests):
        made_for = layout.collect(entry)
        name = _annotated_name(entry.annotations or {})
        if entry.media_type in _INDEX_TYPES:  # a lone manifest is run as it is
            _check_platform(name, made_for, architecture)
        if name:
            images.append(_named(name, media_type=entry.media_type, digest=entry.digest, size=entry.size))
    return _contents(layout.blobs, images)


def _contents(blobs: Mapping[str, Blob], images: Sequence[NamedImage]) -> Contents:
    if len(images) > _MOST_NAMES:
        raise ArchiveError(f"names more than {_MOST_NAMES} images")
    return Contents(blobs=tuple(blobs.values()), images=tuple(images))


def _annotated_name(annotations: Mapping[str, str]) -> str:
    """The name an index entry gives, "" if none. The standard's own key often holds no more than a tag."""
    reference = annotations.get(_REF_KEY, "")
    return annotations.get(_NAME_KEY) or (reference if "/" in reference or ":" in reference else "")


def _named(name: str, *, media_type: str, digest: str, size: int) -> NamedImage:
    try:
        full = image_name.full_name(name)
    except image_name.ImageNameError as error:
        raise ArchiveError(str(error)) from error
    return NamedImage(name=full, media_type=media_type, digest=digest, size=size)


def _check_platform(name: str, made_for: AbstractSet[str], architecture: str) -> None:
    host = _ARCHITECTURES.get(architecture, architecture)
    if architecture and made_for and made_for.isdisjoint(_RUNS.get(host, frozenset({host}))):
        others = ", ".join(sorted(made_for))
        raise ArchiveError(f"{name or 'an image'} is made for {others}, and not for {host} as this host needs it")


class _References:
    """Counts what documents refer to: a small one may name one thing a million times."""

    def __init__(self) -> None:
        self._count = 0

    def counted(self, parts: Sequence[T]) -> Sequence[T]:
        self._count += len(parts)
        if self._count > _MOST_REFERENCES:
            raise ArchiveError(
                f"refers to more than {_MOST_REFERENCES} manifests and layers, which no image archive does"
            )
        return parts


class _Layout(_References):
    def __init__(self, members: Mapping[str, Member]) -> None:
        super().__init__()
        self._members = members
        self._made_for: dict[str, frozenset[str]] = {}
        #: By digest.
        self.blobs: dict[str, Blob] = {}

    def collect(self, descriptor: _Descriptor, *, depth: int = 0) -> frozenset[str]:
        """Add the blob of a manifest or index and all it refers to; children first.

        Returns the architectures that it is made for, as far as they are known.
        """
        member = _whole_blob(self._members, descriptor)
        # The same bytes may be called an index in one place and a manifest in another.
        seen = f"{descriptor.media_type in _INDEX_TYPES} {descriptor.digest}"
        if seen in self._made_for:
            return self._made_for[seen]
        if descriptor.media_type in _INDEX_TYPES:
            if depth >= _DEEPEST:
                raise ArchiveError(f"has indexes in indexes, more than {_DEEPEST} deep")
            labels, made_for = self._of_index(descriptor, depth)
        else:
            labels, made_for = self._of_manifest(descriptor)
        self.blobs[descriptor.digest] = Blob(
            digest=descriptor.digest, size=member.size, data=member.document, place=member.place, labels=labels
        )
        self._made_for[seen] = frozenset(made_for - {"", "unknown"})
        return self._made_for[seen]

    def _of_index(self, descriptor: _Descriptor, depth: int) -> tuple[dict[str, str], set[str]]:
        labels: dict[str, str] = {}
        made_for: set[str] = set()
        # Archives of one platform often carry an index that still lists the others.
        for i, child in enumerate(self.counted(_load(self._members, _blob_name(descriptor), _Index).manifests)):
            if _blob_name(child) in self._members:
                made_for |= self.collect(child, depth=depth + 1)
                labels[f"{_REF}.m.{i}"] = child.digest
        if not labels:
            raise ArchiveError(f"index {descriptor.digest} has none of its manifests in the archive")
        return labels, made_for

    def _of_manifest(self, descriptor: _Descriptor) -> tuple[dict[str, str], set[str]]:
        manifest = _load(self._members, _blob_name(descriptor), _Manifest)
        labels = {f"{_REF}.config": manifest.config.digest}
        labels |= {f"{_REF}.l.{i}": layer.digest for i, layer in enumerate(self.counted(manifest.layers))}
        for part in (manifest.config, *manifest.layers):
            member = _whole_blob(self._members, part)
            self.blobs.setdefault(part.digest, Blob(digest=part.digest, size=member.size, place=member.place))
        config = self._members[_blob_name(manifest.config)].document
        return labels, {_decoded(config, _Config, manifest.config.digest).architecture} if config else set()


def _blob_name(descriptor: _Descriptor) -> str:
    return "blobs/" + descriptor.digest.replace(":", "/")


def _whole_blob(members: Mapping[str, Member], descriptor: _Descriptor) -> Member:
    member = members.get(_blob_name(descriptor))
    if member is None:
        raise ArchiveError(f"blob {descriptor.digest} is missing")
    if member.digest != descriptor.digest or member.size != descriptor.size:
        raise ArchiveError(f"blob {descriptor.digest} is damaged: its content is another")
    return member


def _read_docker(members: Mapping[str, Member]) -> Contents:
    blobs: dict[str, Blob] = {}
    images = []
    references = _References()
    for entry in references.counted(_load(members, "manifest.json", tuple[_Saved, ...])):
        config = _of_member(_followed(members, entry.config))
        found = [_followed(members, layer) for layer in references.counted(entry.layers)]
        layers = [_of_member(layer) for layer in found]
        _check_layers(members, entry)
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_DOCKER}.distribution.manifest.v2+json",
            "config": _descriptor(f"{_DOCKER}.container.image.v1+json", config),
            "layers": [_descriptor(_layer_type(it), layer) for it, layer in zip(found, layers, strict=True)],
        }
        data = json.dumps(manifest, separators=(",", ":")).encode()
        labels = {f"{_REF}.config": config.digest}
        labels |= {f"{_REF}.l.{i}": layer.digest for i, layer in enumerate(layers)}
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs |= {blob.digest: blob for blob in (config, *layers)}
        blobs[digest] = Blob(digest=digest, size=len(data), data=data, labels=labels)
        images += [
            _named(tag, media_type=str(manifest["mediaType"]), digest=digest, size=len(data))
            for tag in references.counted(entry.repo_tags or ())
        ]
    return _contents(blobs, images)


def _of_member(member: Member) -> Blob:
    """A blob that is known by file name only: its digest is the one computed."""
    return Blob(digest=member.digest, size=member.size, place=member.place)


def _followed(members: Mapping[str, Member], name: str) -> Member:
    """The file of that name; older `docker save` makes links of layers that it has already."""
    target = name
    for _ in range(_MOST_LINKS):
        member = members.get(target)
        if member is None:
            break
        if not member.link:
            return member
        target = member.link
    raise ArchiveError(f"{name} is missing")


def _check_layers(members: Mapping[str, Member], entry: _Saved) -> None:
    """The configuration names each layer by its digest when unpacked: all there is to tell a damaged one by."""
    config = _followed(members, entry.config)
    expected = _decoded(config.document or b"", _Config, entry.config).rootfs.diff_ids
    for layer, diff_id in zip(entry.layers, expected, strict=False):
        member = _followed(members, layer)
        if not member.head.startswith((GZIP, ZSTD)) and diff_id != member.digest:
            raise ArchiveError(f"layer {layer} is damaged: its content is another")


def _layer_type(layer: Member) -> str:
    packed = ".gzip" if layer.head.startswith(GZIP) else ".zstd" if layer.head.startswith(ZSTD) else ""
    return f"{_DOCKER}.image.rootfs.diff.tar{packed}"


def _descriptor(media_type: str, blob: Blob) -> dict[str, object]:
    return {"mediaType": media_type, "digest": blob.digest, "size": blob.size}


def _load(members: Mapping[str, Member], name: str, type_: type[T]) -> T:
    member = members[name]
    if member.document is None:
        raise ArchiveError(f"{name} is not a JSON document of a sensible size")
    return _decoded(member.document, type_, name)


def _decoded(data: bytes, type_: type[T], name: str) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ArchiveError(f"{name} is damaged: {error}") from error
