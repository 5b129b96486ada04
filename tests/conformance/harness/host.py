"""What the harness sees of the host: its clock, and the processes of a scenario's pod, pause and shim included."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time

#: The variable in every container of a scenario that tells whose it is.
MARK = "CONFORMANCE_SCENARIO"


def uptime() -> float:
    return float(pathlib.Path("/proc/uptime").read_text().split()[0])


def processes(folder: pathlib.Path) -> list[int]:
    """The processes on this host that belong to the containers of the scenario that has this folder."""
    mark, found = f"{MARK}={folder}".encode(), []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def pauses(folder: pathlib.Path) -> list[int]:
    """The pause processes of the scenario's sandboxes: of each shim's children that bear no mark, the oldest."""
    marked = set(processes(folder))
    families = [[pid for pid in _children(shim) if pid not in marked] for shim in shims(folder)]
    return [min(family, key=_began) for family in families if family]


def shims(folder: pathlib.Path) -> list[int]:
    """The shims above the scenario's containers (containerd has one for each sandbox)."""
    found = set()
    for pid in processes(folder):
        with contextlib.suppress(OSError, ValueError):
            while "containerd-shim" not in _name(pid):
                pid = _parent(pid)  # noqa: PLW2901 - up the tree
            found.add(pid)
    return sorted(found)


def kill_pod(folder: pathlib.Path) -> None:
    """End all of the pod at once, its shim too: what a reboot of the node leaves of it."""
    above = shims(folder)
    doomed = [*above, *(child for shim in above for child in _children(shim)), *processes(folder)]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in doomed) and time.monotonic() < deadline:
        time.sleep(0.02)


def _name(pid: int) -> str:
    """Raises ValueError at the top of the tree."""
    if pid <= 1:
        raise ValueError("no shim above it")
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")


def _began(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _parent(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found
