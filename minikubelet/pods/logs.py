"""The log files of pods, where the kubelet puts them: `LOGS/<ns>_<name>_<uid>/<container>/<restartCount>.log`.

containerd writes them; the folders, the links that log collectors follow (CC-12) and the removal are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from pathlib import Path

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping import NodeContext, log_directory
from minikubelet.runtime.state import RuntimeState

_LONGEST_NAME = 255
_LOG = re.compile(r"(\d{1,9})\.log(\..*)?")


async def make_log_directory(pod: Pod, container: str, node: NodeContext) -> None:
    """The folder of a container's logs, or with "" that of the pod (SB-4, CC-4). Raises OSError."""
    path = Path(log_directory(pod, node)) / container
    await asyncio.to_thread(_make, node.log_dir, path)


def _make(top: Path, path: Path) -> None:
    top.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.mkdir(mode=0o755, parents=True, exist_ok=True)


async def logged_attempts(pod: Pod, node: NodeContext) -> dict[str, int]:
    """The highest attempt that a log is left of, by container: counts go on where nothing else is known (CC-1)."""
    return await asyncio.to_thread(_logged, Path(log_directory(pod, node)))


def _logged(directory: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for file in directory.glob("*/*.log*"):
            if name := _LOG.fullmatch(file.name):
                found[file.parent.name] = max(found.get(file.parent.name, 0), int(name[1]))
    return found


def _links(node: NodeContext) -> Path:
    """`/var/log/containers` beside the usual `/var/log/pods`."""
    return node.log_dir.parent / "containers"


def _link(pod: Pod, container: str, container_id: str, node: NodeContext) -> Path:
    name = f"{pod.metadata.name}_{pod.metadata.namespace}_{container}-{container_id}"
    return _links(node) / f"{name[: _LONGEST_NAME - len('.log')]}.log"


async def link_container_log(pod: Pod, container: str, *, container_id: str, log_path: str, node: NodeContext) -> None:
    """Link the log under the name that log collectors look for (CC-12). If that fails, the container does without."""
    target = Path(log_directory(pod, node)) / log_path
    with contextlib.suppress(OSError):
        await asyncio.to_thread(_make_link, _link(pod, container, container_id, node), target)


def _make_link(link: Path, target: Path) -> None:
    if target.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


async def remove_container_logs(
    pod: Pod, container: str, *, container_id: str, state: RuntimeState, node: NodeContext
) -> None:
    """Remove the logs of one instance of a container, rotated ones too, and its link (GC-1)."""
    record = next((c for c in state.observed(pod.metadata.uid).containers if c.id == container_id), None)
    if record is not None:
        directory = Path(log_directory(pod, node)) / container
        link = _link(pod, container, container_id, node)
        await asyncio.to_thread(_remove, directory, f"{record.restart_count}.log*", link)


def _remove(directory: Path, pattern: str, link: Path) -> None:
    for file in (*directory.glob(pattern), link):
        file.unlink(missing_ok=True)


async def remove_pod_logs(pod: Pod, node: NodeContext) -> None:
    """Remove every log of the pod and the links to them."""
    await asyncio.to_thread(_remove_all, Path(log_directory(pod, node)), _links(node))


def _remove_all(directory: Path, links: Path) -> None:
    for link in links.iterdir() if links.is_dir() else ():
        if link.is_symlink() and directory in link.readlink().parents:
            link.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
