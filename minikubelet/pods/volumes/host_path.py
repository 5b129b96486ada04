"""hostPath: a path of the host itself, checked and where wanted created, never removed (VO-6)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from minikubelet.pods.volumes.plugin import PluginError, Request

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "is not a directory"),
    "File": (stat.S_ISREG, "is not a file"),
    "Socket": (stat.S_ISSOCK, "is not a socket file"),
    "CharDevice": (stat.S_ISCHR, "is not a character device"),
    "BlockDevice": (stat.S_ISBLK, "is not a block device"),
}


def set_up(request: Request) -> str:
    source = request.volume.host_path
    if source is None:
        raise PluginError("it has no hostPath")
    if ".." in source.path.split("/"):
        raise PluginError(f"invalid HostPath `{source.path}`: must not contain '..'")
    wanted = source.type.removesuffix("OrCreate")
    if wanted != source.type:
        _create(source.path, directory=wanted == "Directory")
    if wanted:
        _check(source.path, wanted)
    return source.path


def _create(path: str, *, directory: bool) -> None:
    """Make it if it is not there: a directory with its parents, a file without (VO-6)."""
    with contextlib.suppress(FileExistsError):
        if directory:
            Path(path).mkdir(mode=0o755, parents=True)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _check(path: str, wanted: str) -> None:
    is_wanted, text = _CHECKS[wanted]
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - links are followed, on purpose
    except OSError:
        mode = 0
    if not is_wanted(mode):
        raise PluginError(f"hostPath type check failed: {path} {text}")
