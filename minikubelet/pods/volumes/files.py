"""Directories and files with exact modes, whatever the umask, and the two files every container has (MT-4 to MT-6)."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from minikubelet.api.pod import HostAlias
from minikubelet.pods.volumes.layout import PLUGIN, PRIVATE, Layout

_MANAGED = """\
# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
"""
_HOST_NETWORK = "# Kubernetes-managed hosts file (host network).\n"


def make_directory(path: Path, mode: int, *, parents: int = PRIVATE) -> None:
    """Make a directory of exactly this mode, missing parents with theirs; one that is there keeps its mode."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_directory(path.parent, parents)
    path.mkdir(exist_ok=True)
    path.chmod(mode)


def own_directory(path: Path, layout: Layout) -> None:
    """A plug-in's folder `volumes/<plugin>` of a pod, and what is above it up to the agent's root folder (PD-1)."""
    make_directory(layout.root, PRIVATE, parents=PLUGIN)
    make_directory(path, PLUGIN)


def managed_hosts(*, ips: Sequence[str], hostname: str, domain: str = "", aliases: Sequence[HostAlias] = ()) -> str:
    """/etc/hosts of a pod with its own network (MT-5)."""
    names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    return _MANAGED + "".join(f"{ip}\t{names}\n" for ip in ips) + _alias_lines(aliases)


def host_network_hosts(*, node: str, aliases: Sequence[HostAlias] = ()) -> str:
    """/etc/hosts of a pod on the host's network: the node's own, given as `node` (MT-5)."""
    return _HOST_NETWORK + node + _alias_lines(aliases)


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = ("\t".join((alias.ip, *alias.hostnames)) for alias in aliases)
    return "\n# Entries added by HostAliases.\n" + "".join(f"{line}\n" for line in lines)


def write_shared(path: Path, content: str) -> None:
    """Write a file that containers have mounted: in place, since they would not see a new one, and never half-empty.

    Written only if it differs, so that a rewrite at each container start does not disturb those that run (MT-4).
    """
    data = content.encode()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.fchmod(fd, 0o644)
        if os.pread(fd, len(data) + 1, 0) != data:
            os.pwrite(fd, data, 0)
            os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def create_termination_log(directory: Path) -> Path:
    """A new empty file that any user of the container may write to (MT-6). Raises OSError."""
    make_directory(directory, PRIVATE)
    path = directory / secrets.token_hex(4)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        os.fchmod(fd, 0o666)
    finally:
        os.close(fd)
    return path
