"""Prints which of containerd's containers a minikubelet made, and which of them run: for scripts/uninstall.

    own_containers.py ROOT...      a line each: ID sandbox|container running|ended NAMESPACE/NAME NETNS

ROOT is the daemon's state folder, which it marks its containers with. With the system's Python, as the package may be
gone: standard library only, and `ctr`. Fails with its words where containerd does not answer.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

#: The mark's key (minikubelet.runtime.mapping.labels.OWNER).
OWNER = "minikubelet/root"
_ID = "io.cri-containerd.kind"
_POD = "io.kubernetes.pod."


def line_of(info: dict[str, Any], *, roots: set[str], alive: set[str]) -> str | None:
    """What is printed of what `ctr containers info` says; None for somebody else's. `alive`: ids with a task."""
    labels = info.get("Labels") or {}
    kind = labels.get(_ID, "")
    try:
        stored = (info["Extensions"] or {})[f"io.cri-containerd.{kind}.metadata"]["value"]
        metadata: dict[str, Any] = json.loads(base64.b64decode(stored))["Metadata"]
        marks = metadata["Config"].get("annotations") or {}
    except (KeyError, TypeError, ValueError):
        return None  # not made by CRI, or not as far as this can tell
    if marks.get(OWNER) not in roots:
        return None
    pod = f"{labels.get(f'{_POD}namespace', '')}/{labels.get(f'{_POD}name', '')}"
    state = "running" if info["ID"] in alive else "ended"
    return f"{info['ID']} {kind} {state} {pod} {metadata.get('NetNSPath') or '-'}"


def alive(listing: str) -> set[str]:
    """The ids in what `ctr tasks ls` says whose process is there."""
    rows = [line.split() for line in listing.splitlines()[1:]]
    return {row[0] for row in rows if len(row) == 3 and row[2] != "STOPPED"}


def _ctr(*arguments: str) -> str:
    done = subprocess.run(["ctr", "-n", "k8s.io", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ctr {arguments[0]} {arguments[1]}: {done.stderr.strip()}")
    return done.stdout


def _infos() -> Iterator[dict[str, Any]]:
    for name in _ctr("containers", "ls", "-q").split():
        done = subprocess.run(
            ["ctr", "-n", "k8s.io", "containers", "info", name], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:  # else it has gone meanwhile
            yield json.loads(done.stdout)


if __name__ == "__main__":
    running = alive(_ctr("tasks", "ls"))
    for info in _infos():
        if text := line_of(info, roots=set(sys.argv[1:]), alive=running):
            print(text)
