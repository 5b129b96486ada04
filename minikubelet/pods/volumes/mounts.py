"""mount(2) and umount(2) of the C library, and the list of what is mounted.

Python has no call for them; the `mount` program would bring its own rules (fstab, helpers, a mtab) into it.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_UMOUNT_NOFOLLOW = 8
_OCTAL = re.compile(r"\\([0-7]{3})")


def mount(filesystem: str, target: Path, *, options: str) -> None:
    """Mount a new file system on `target`. Raises OSError."""
    name, kind = os.fsencode(filesystem), os.fsencode(filesystem)
    if _libc.mount(name, os.fsencode(target), kind, ctypes.c_ulong(0), os.fsencode(options)) != 0:
        raise _error("mount", target)


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
