"""Images of real software, made on the spot from this machine's own Debian packages: no image registry is asked.

apt finds out what a package needs, downloads and verifies it; what is in the packages becomes a layer on top of
busybox, which brings the shell and the small tools. Layers are kept in build/, so only the first run needs the network.
Nothing is installed. Tests use `image_of`, and so does `scripts/sample-image`, which writes archives for people: with
the system's Python, so standard library only.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.images import Image

_ROOT = Path(__file__).parents[2]
_CACHE = _ROOT / "build/software"
#: What no program needs to run.
_LEFT_OUT = re.compile(r"usr/share/(doc|man|info|locale|lintian|bug|bash-completion|perl5)/|usr/include/")
#: Older Debians have libraries here; since all of it is below /usr, these are links.
_LINKS = {"lib": "usr/lib", "lib64": "usr/lib64"}
#: For apt, in seconds: mirrors can be slow.
_PATIENCE = 300


class PackagesUnavailableError(Exception):
    """This machine's apt does not give the packages; the text is apt's."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Software:
    """What to make an image of, and the settings that the program's usual image on a registry has, too.

    `packages` come with the libraries that they need, not with what only their installation needs.
    """

    packages: tuple[str, ...]
    names: tuple[str, ...]
    cmd: tuple[str, ...]
    stop_signal: str = ""
    user: str = ""
    working_dir: str = ""
    #: Users that the packages' installation would add: name -> number.
    users: tuple[tuple[str, int], ...] = ()


SOFTWARE = {
    "nginx": Software(
        packages=("nginx", "nginx-common"),
        names=("docker.io/library/nginx:stable",),
        cmd=("nginx", "-g", "daemon off;"),
        stop_signal="SIGQUIT",
        users=(("www-data", 33),),
    ),
    "haproxy": Software(
        packages=("haproxy",),
        names=("docker.io/library/haproxy:lts",),
        cmd=("haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"),
        stop_signal="SIGUSR1",
        user="haproxy",
        users=(("haproxy", 99),),
    ),
    "redis": Software(
        packages=("redis-server", "redis-tools"),
        names=("docker.io/library/redis:7",),
        cmd=("redis-server",),
        working_dir="/data",
        users=(("redis", 999),),
    ),
    "rsyslog": Software(
        packages=("rsyslog",),
        names=("docker.io/rsyslog/rsyslog:latest",),
        cmd=("rsyslogd", "-n"),
    ),
}


def image_of(name: str) -> Image:
    """The image of a `SOFTWARE`; the first time this takes a while. Raises PackagesUnavailableError."""
    software = SOFTWARE[name]
    return Image(
        names=software.names,
        cmd=software.cmd,
        stop_signal=software.stop_signal,
        user=software.user,
        working_dir=software.working_dir,
        users=software.users,
        layers=(_layer(name, software),),
    )


def _layer(name: str, software: Software) -> Path:
    done = _CACHE / f"{name}-{_release()}.tar"
    if not done.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
            packages = _download(Path(folder), software.packages)
            fresh = Path(folder, "layer.tar")
            _write_layer(fresh, packages)
            fresh.rename(done)
    return done


def _release() -> str:
    text = Path("/etc/os-release").read_text()
    found = re.search(r"^VERSION_CODENAME=(\w+)", text, re.MULTILINE)
    machine = os.uname().machine
    return f"{found[1] if found else 'unknown'}-{machine}"


def _download(folder: Path, packages: tuple[str, ...]) -> list[Path]:
    """The packages and the libraries that they need, as files. Raises PackagesUnavailableError."""
    (folder / "status").touch()
    (folder / "cache/archives/partial").mkdir(parents=True)
    command = [
        "apt-get", "--yes", "--quiet", "--no-install-recommends", "--download-only",
        # As if nothing were installed, so that all that is needed is fetched; nothing of the host's apt is written.
        "-o", f"Dir::State::status={folder}/status", "-o", f"Dir::Cache={folder}/cache", "-o", "Debug::NoLocking=true",
        "-o", "pkgCacheGen::Essential=none", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3",
        "install", *packages,
    ]  # fmt: skip
    try:
        done = _run(command)
        if done.returncode != 0:  # its lists may be old, or never have been fetched here
            _run(["apt-get", "--quiet", "update"])
            done = _run(command)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PackagesUnavailableError(f"apt-get: {error}") from error
    if done.returncode != 0:
        reason = done.stderr.strip().partition("\n")[0]
        raise PackagesUnavailableError(f"apt-get install --download-only {' '.join(packages)}: {reason}")
    found = {path.name.partition("_")[0]: path for path in (folder / "cache/archives").glob("*.deb")}
    return [path for name, path in sorted(found.items()) if name in packages or _is_library(name)]


def _is_library(package: str) -> bool:
    return package.startswith(("lib", "zlib")) and "perl" not in package


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL,
        timeout=_PATIENCE,
    )  # fmt: skip


def _write_layer(path: Path, packages: list[Path]) -> None:
    """What is in the packages, with all libraries below /usr wherever this Debian has them."""
    written = set(_LINKS)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as layer:
        for link, target in _LINKS.items():
            member = tarfile.TarInfo(link)
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, 0o777
            layer.addfile(member)
        for package in packages:
            for member, data in _members(package):
                if member.name not in written:
                    written.add(member.name)
                    layer.addfile(member, data)


def _members(package: Path) -> Iterator[tuple[tarfile.TarInfo, io.BufferedIOBase | None]]:
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as content:
        for member in content:
            member.name = _below_usr(member.name.removeprefix("./").rstrip("/"))
            if member.islnk():
                member.linkname = _below_usr(member.linkname.removeprefix("./"))
            if member.name not in ("", ".") and not _LEFT_OUT.match(f"{member.name}/"):
                data = content.extractfile(member) if member.isreg() else None
                yield member, data  # type: ignore[misc]  # a tar member's file is buffered


def _below_usr(name: str) -> str:
    top = name.partition("/")[0]
    return f"usr/{name}" if top in _LINKS and name != top else name
