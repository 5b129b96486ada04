"""fsGroup: the group that shares a pod's volumes, whatever users its containers run as (VO-11)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from minikubelet.api.pod import Pod

_DIRECTORY = stat.S_ISGID | 0o110


def fs_group(pod: Pod) -> int | None:
    context = pod.spec.security_context
    return context.fs_group if context is not None else None


def give_to_group(top: Path, group: int | None, *, writable: bool, all_of_it: bool = True) -> None:
    """Give a directory and all in it to the group, children before parents; nothing is done without a group.

    `all_of_it` only for what no container can write to meanwhile. Links are given, never followed.
    """
    if group is None:
        return
    entries = [top]
    for entry in entries if all_of_it else ():  # grows while it is walked
        if entry.is_dir() and not entry.is_symlink():
            entries.extend(entry.iterdir())
    allowed = 0o660 if writable else 0o440
    for entry in reversed(entries):
        mode = entry.lstat().st_mode
        os.chown(entry, -1, group, follow_symlinks=False)
        if not stat.S_ISLNK(mode):
            entry.chmod(stat.S_IMODE(mode) | allowed | (_DIRECTORY if stat.S_ISDIR(mode) else 0))
