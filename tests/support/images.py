"""Container images made from the host's static busybox, so that tests and the demo need no registry.

`python -m tests.support.images OUT.tar` writes an OCI-layout archive with busybox (`busybox:1.36`) and a pause image.
The same input gives the same bytes, so an image keeps its id from run to run.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

BUSYBOX_NAME = "docker.io/library/busybox:1.36"
#: Bears a registry name that cannot exist, so that it is never asked for over the network.
PAUSE_NAME = "minikubelet.invalid/pause:1"

_INDEX = "application/vnd.oci.image.index.v1+json"
_USERS = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
app:x:1000:1000:app:/home:/bin/sh
nobody:x:65534:65534:nobody:/home:/bin/false
"""
_GROUP = "root:x:0:\ndaemon:x:1:\napp:x:1000:\nnogroup:x:65534:\n"
#: Ends at once on SIGTERM although it is process 1, and reaps what is orphaned onto it.
_PAUSE = "trap 'exit 0' TERM INT; sleep 2147483647 & wait"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image:
    """An image to build: `names` are fully qualified, the layer is busybox plus `files` (path -> content)."""

    names: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    user: str = ""
    working_dir: str = ""
    stop_signal: str = ""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    #: Big enough to matter, e.g. for a slow import: so many bytes of padding.
    padding: int = 0
    #: As its configuration names it; empty: this machine's.
    architecture: str = ""
    #: More users than busybox's: name and number.
    users: tuple[tuple[str, int], ...] = ()
    #: Uncompressed tars that are stacked on the first layer.
    layers: tuple[Path, ...] = ()


BUSYBOX = Image(names=(BUSYBOX_NAME, "docker.io/library/busybox:latest"), cmd=("sh",))
#: The same programs, as another version that an edit can ask for.
OTHER_BUSYBOX = Image(names=("docker.io/library/busybox:1.37",), cmd=("sh",), env=(*BUSYBOX.env, "EDITION=1.37"))
PAUSE = Image(names=(PAUSE_NAME,), entrypoint=("/bin/sh", "-c", _PAUSE))


def write_archive(
    path: Path, images: Sequence[Image] = (BUSYBOX, PAUSE), *, compress: bool = False, index: bool = False
) -> Path:
    """Write an OCI-layout archive of `images`; `compress` gzips the layers, `index` gives each image one of its own."""
    blobs: dict[str, bytes] = {}
    manifests = []
    for image in images:
        descriptor = _add_image(blobs, image, compress=compress)
        if index:
            platform_of = {"os": "linux", "architecture": image.architecture or _architecture()}
            document = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [{**descriptor, "platform": platform_of}]}
            descriptor = _blob(blobs, _INDEX, _json(document))
        for name in image.names:
            tag = name.rsplit(":", 1)[1]
            annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
            manifests.append({**descriptor, "annotations": annotations})
    top = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        _add_file(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add_file(tar, "index.json", _json(top))
        for digest, data in sorted(blobs.items()):
            _add_file(tar, f"blobs/sha256/{digest}", data)
    return path


def write_docker_archive(path: Path, image: Image = BUSYBOX) -> Path:
    """Write what `docker save` would: manifest.json, a config and a plain layer.tar."""
    layer = _layer(image)
    config = _json(_config(image, layer))
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    layer_name = f"{hashlib.sha256(layer).hexdigest()}/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [_familiar(n) for n in image.names], "Layers": [layer_name]}]
    with tarfile.open(path, "w") as tar:
        _add_file(tar, layer_name, layer)
        _add_file(tar, config_name, config)
        _add_file(tar, "manifest.json", _json(manifest))
    return path


def static_busybox() -> Path:
    """The host's statically linked busybox. Raises SystemExit with what to install."""
    for candidate in ("/bin/busybox", shutil.which("busybox") or "/usr/bin/busybox"):
        path = Path(candidate)
        # A dynamically linked program names its loader near the beginning of the file.
        if path.exists() and b"/ld-" not in path.read_bytes()[:4096]:
            return path
    raise SystemExit("a static busybox is needed to make images: install busybox-static")


def _add_image(blobs: dict[str, bytes], image: Image, *, compress: bool) -> dict[str, object]:
    layers = [_layer(image), *(path.read_bytes() for path in image.layers)]
    packed = [gzip.compress(layer, compresslevel=1, mtime=0) if compress else layer for layer in layers]
    config = _blob(blobs, "application/vnd.oci.image.config.v1+json", _json(_config(image, *layers)))
    media_type = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if compress else "")
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [_blob(blobs, media_type, data) for data in packed],
    }
    return _blob(blobs, "application/vnd.oci.image.manifest.v1+json", _json(manifest))


def _config(image: Image, *layers: bytes) -> dict[str, object]:
    settings = {
        "Env": list(image.env),
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.cmd),
        "User": image.user,
        "WorkingDir": image.working_dir,
        "StopSignal": image.stop_signal,
    }
    return {
        "architecture": image.architecture or _architecture(),
        "os": "linux",
        "config": {key: value for key, value in settings.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(it).hexdigest()}" for it in layers]},
    }


def _layer(image: Image) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _write_busybox(tar)
        users = "".join(f"{name}:x:{number}:{number}::/:/bin/sh\n" for name, number in image.users)
        groups = "".join(f"{name}:x:{number}:\n" for name, number in image.users)
        _add_file(tar, "etc/passwd", (_USERS + users).encode())
        _add_file(tar, "etc/group", (_GROUP + groups).encode())
        for name, data in sorted(image.files.items()):
            _add_file(tar, name.lstrip("/"), data, mode=0o755)
        if image.padding:
            _add_file(tar, "padding", bytes(image.padding))
    return buffer.getvalue()


def _write_busybox(tar: tarfile.TarFile) -> None:
    busybox = static_busybox()
    applets = _applets(busybox)
    folders = {"bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var", "usr/local", "usr/local/bin"}
    folders |= {str(parent) for applet in applets for parent in Path(applet).parents if str(parent) != "."}
    for folder in sorted(folders):
        member = tarfile.TarInfo(folder)
        member.type, member.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
        tar.addfile(member)
    _add_file(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
    for applet in sorted(set(applets) - {"bin/busybox"}):
        member = tarfile.TarInfo(applet)
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, "/bin/busybox", 0o777
        tar.addfile(member)


def applets() -> frozenset[str]:
    """The names of the programs that every image has."""
    return frozenset(applet.rpartition("/")[2] for applet in _applets(static_busybox()))


@cache
def _applets(busybox: Path) -> tuple[str, ...]:
    """Paths such as `bin/sh`, `usr/bin/awk`."""
    done = subprocess.run([str(busybox), "--list-full"], check=True, capture_output=True, text=True)
    return tuple(line.strip().lstrip("/") for line in done.stdout.split() if line.strip())


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _blob(blobs: dict[str, bytes], media_type: str, data: bytes) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _add_file(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    tar.addfile(member, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _familiar(name: str) -> str:
    return name.removeprefix("docker.io/library/").removeprefix("docker.io/")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.support.images OUT.tar")
    write_archive(Path(sys.argv[1]))
