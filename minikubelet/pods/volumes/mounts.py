"""mount(2) and umount(2) of the C library, and the list of what is mounted.

Python has no call for them; the `mount` program would bring its own rules (fstab, helpers, a mtab) into it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_UMOUNT_NOFOLLOW = 8
_MS_BIND = 4096
_OCTAL = re.compile(r"\\([0-7]{3})")


def mount(filesystem: str, target: Path, *, options: str) -> None:
    """Mount a new file system on `target`. Raises OSError."""
    name, kind = os.fsencode(filesystem), os.fsencode(filesystem)
    if _libc.mount(name, os.fsencode(target), kind, ctypes.c_ulong(0), os.fsencode(options)) != 0:
        raise _error("mount", target)


def mount_in_memory(filesystem: str, target: Path, *, options: str) -> None:
    """Mount a new tmpfs, kept out of swap where the kernel can (since 6.4), or another one. Raises OSError."""
    if filesystem == "tmpfs":
        try:
            mount(filesystem, target, options=f"{options},noswap".lstrip(","))
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise
        else:
            return
    mount(filesystem, target, options=options)


def bind(source: str, target: Path) -> None:
    """Make what is at `source` appear at `target` as well, without what is mounted below it. Raises OSError."""
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_MS_BIND), None) != 0:
        raise _error("bind mount", target)


def unmount(target: Path) -> None:
    """Undo the topmost mount on `target`, which is never followed if it is a symlink. Raises OSError, e.g. EBUSY."""
    if _libc.umount2(os.fsencode(target), _UMOUNT_NOFOLLOW) != 0:
        raise _error("unmount", target)


def _error(what: str, target: Path) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what} failed: {os.strerror(code)}", str(target))


def below(directory: Path) -> list[Path]:
    """The mount points on and below a directory, in the order they were mounted (one can be there more than once)."""
    top = os.path.realpath(directory)
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4])
        if point == top or point.startswith(f"{top}/"):
            found.append(Path(point))
    return found


def mount_id(fd: int) -> str:
    """Which mount an open file lies on: unlike the device number it also tells bind mounts apart."""
    for line in Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == "mnt_id":
            return value.strip()
    raise OSError(f"the kernel does not say which mount descriptor {fd} is on")


def is_mount_point(path: Path) -> bool:
    """Whether something is mounted on the path itself, by whichever way; False if it is not there."""
    try:
        own = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return mount_id(own) != mount_id(parent)
        finally:
            os.close(parent)
    finally:
        os.close(own)
