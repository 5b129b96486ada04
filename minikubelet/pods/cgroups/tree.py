"""The cgroup file system: folders made and removed, limits written, on v1 and on v2 (CG-3, CG-7). Blocking.

Paths are a cgroup's own, `/kubepods/pod1`; on v1 each is a folder in every mounted controller.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from minikubelet.pods.cgroups.files import Setting, settings_v1, settings_v2
from minikubelet.runtime.mapping.cgroup import CgroupLimits

ROOT = Path("/sys/fs/cgroup")

#: v2 controllers that containers are limited by, as far as the kernel has them.
_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids", "hugetlb", "rdma", "misc")
#: How often processes are killed that are still there (CG-7), and how many seconds each round may take.
_ROUNDS, _ROUND = 5, 2.0


class CgroupTree:
    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.v2 = (root / "cgroup.controllers").exists()

    def make(self, path: str) -> None:
        """Make the cgroup and those above it, as far as they are missing. Raises OSError."""
        if self.v2:
            self._make_v2(path)
            return
        for hierarchy in self._hierarchies():
            if hierarchy.name == "unified":
                continue  # the other half of a hybrid host; has no controllers
            (hierarchy / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        if (cpuset := self._root / "cpuset").is_dir():
            _inherit_cpuset(cpuset, path)

    def limit(self, path: str, limits: CgroupLimits, *, only: str = "") -> None:
        """Write the limits, of one controller or all. One that the kernel lacks is left out. Raises OSError."""
        for setting in settings_v2(limits) if self.v2 else settings_v1(limits):
            if not only or setting.controller == only:
                self._write(path, setting)

    def exists(self, path: str) -> bool:
        return any((hierarchy / path.lstrip("/")).is_dir() for hierarchy in self._hierarchies())

    def remove(self, path: str) -> None:
        """Remove the cgroup and those below it; what still runs in them is killed. Raises OSError."""
        folders = [hierarchy / path.lstrip("/") for hierarchy in self._hierarchies()]
        for _ in range(_ROUNDS):
            left = {pid for folder in folders for pid in _processes(folder)}
            if not left:
                break
            _kill(left)
        for folder in folders:
            _remove_folders(folder)

    def _hierarchies(self) -> Iterator[Path]:
        """Where cgroups are mounted: once on v2, once a controller on v1 (links to joint mounts left out)."""
        if self.v2:
            yield self._root
            return
        for entry in self._root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                yield entry

    def _make_v2(self, path: str) -> None:
        folder = self._root
        for part in path.strip("/").split("/"):
            has = (folder / "cgroup.controllers").read_text().split()
            given = (folder / "cgroup.subtree_control").read_text().split()
            wanted = [f"+{name}" for name in _CONTROLLERS if name in has and name not in given]
            if wanted:
                (folder / "cgroup.subtree_control").write_text(" ".join(wanted))
            folder /= part
            folder.mkdir(exist_ok=True)

    def _write(self, path: str, setting: Setting) -> None:
        folder = self._root if self.v2 else self._root / setting.controller
        with contextlib.suppress(FileNotFoundError):
            # Without O_CREAT: a controller that is not there must not become a file.
            descriptor = os.open(folder / path.lstrip("/") / setting.file, os.O_WRONLY | os.O_TRUNC)
            with os.fdopen(descriptor, "w") as file:
                file.write(setting.text)


def _inherit_cpuset(hierarchy: Path, path: str) -> None:
    """On v1 a new cpuset is empty and takes no process until it has been given some of its parent's."""
    folder = hierarchy
    for part in path.strip("/").split("/"):
        parent, folder = folder, folder / part
        for name in ("cpuset.cpus", "cpuset.mems"):
            with contextlib.suppress(FileNotFoundError):
                if not (folder / name).read_text().strip():
                    (folder / name).write_text((parent / name).read_text())


def _processes(folder: Path) -> set[int]:
    """Of a cgroup and those below it."""
    found: set[int] = set()
    for below, _, files in os.walk(folder):
        if "cgroup.procs" in files:
            with contextlib.suppress(OSError):  # it went away meanwhile, or is threaded
                found |= {int(pid) for pid in Path(below, "cgroup.procs").read_text().split()}
    return found


def _kill(pids: set[int]) -> None:
    """SIGKILL them and wait until they are gone, or the round is over."""
    poll = select.poll()
    descriptors = []
    for pid in pids - {0}:  # 0: of another pid namespace
        with contextlib.suppress(ProcessLookupError):
            descriptors.append(os.pidfd_open(pid))
            signal.pidfd_send_signal(descriptors[-1], signal.SIGKILL)
            poll.register(descriptors[-1], select.POLLIN)
    deadline = time.monotonic() + _ROUND
    try:
        waiting = len(descriptors)
        while waiting and (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                poll.unregister(descriptor)
                waiting -= 1
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _remove_folders(folder: Path) -> None:
    """A cgroup and those below it, leaves first. Their files are the kernel's and go along."""
    try:
        for below, _, _ in os.walk(folder, topdown=False):
            Path(below).rmdir()
    except FileNotFoundError:
        pass
