"""Where the files of pods lie below the agent's root folder (PD-1, VO-1). Nothing else builds such a path."""

from __future__ import annotations

import dataclasses
from pathlib import Path

EMPTY_DIR = "kubernetes.io~empty-dir"
CONFIG_MAP = "kubernetes.io~configmap"
SECRET = "kubernetes.io~secret"  # noqa: S105 - a folder's name
PROJECTED = "kubernetes.io~projected"
DOWNWARD_API = "kubernetes.io~downward-api"
CLAIM = "kubernetes.io~claim"

#: Modes of the directories that the agent makes, and of the plug-ins' own below `volumes/`.
PRIVATE = 0o750
PLUGIN = 0o755


class UnsafeNameError(ValueError):
    """A uid or name that would lead out of its folder."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Paths are only computed. All methods raise UnsafeNameError for a name that is no plain file name."""

    root: Path

    @property
    def pods(self) -> Path:
        return self.root / "pods"

    @property
    def claims(self) -> Path:
        return self.root / "volumes"

    def pod(self, uid: str) -> Path:
        return self.pods / _plain(uid)

    def etc_hosts(self, uid: str) -> Path:
        return self.pod(uid) / "etc-hosts"

    def container(self, uid: str, container: str) -> Path:
        """Holds the termination logs of a container's instances."""
        return self.pod(uid) / "containers" / _plain(container)

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def volume(self, uid: str, plugin: str, volume: str) -> Path:
        return self.volumes(uid) / _plain(plugin) / _plain(volume)

    def claim(self, namespace: str, name: str) -> Path:
        """What a claim stands for. It belongs to no pod."""
        return self.claims / _plain(namespace) / _plain(name)

    def subpaths(self, uid: str) -> Path:
        """Holds the bind mounts of subPath volume mounts."""
        return self.pod(uid) / "volume-subpaths"

    def subpath(self, uid: str, volume: str, container: str, index: int) -> Path:
        """Where a part of a volume is bound for one mount of a container."""
        return self.subpaths(uid) / _plain(volume) / _plain(container) / str(index)

    def marks(self, uid: str) -> Path:
        return self.pod(uid) / "plugins"

    def ready_mark(self, uid: str, plugin: str, volume: str) -> Path:
        """Exists once the volume has been set up: from then on its content belongs to the pod."""
        return self.marks(uid) / _plain(plugin) / _plain(volume) / "ready"


def _plain(name: str) -> str:
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise UnsafeNameError(f"{name!r} cannot be the name of a file")
    return name
