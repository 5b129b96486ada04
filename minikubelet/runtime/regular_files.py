"""Opens files of which nobody knows what they are by now: a pipe, a device or a link may stand in a file's place.

For `termination`, `pods.log_reading` and `pods.pull_credentials`, and the daemon's resolv.conf.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str, *, folder: int | None = None, follow: bool = False) -> BinaryIO:
    """Open a regular file, in the directory with this descriptor if one is given. Raises OSError.

    It is looked at before it is opened: to open a pipe is to wait for ever, and to open a device may do anything.
    `follow`: it may be a link to one.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), dir_fd=folder)
    try:
        mode = os.fstat(found).st_mode
        if follow and stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError("it is not a regular file")
        return open(f"/proc/self/fd/{found}", "rb")  # noqa: PTH123 - the file that was looked at, whatever its name is now
    finally:
        os.close(found)


def read_regular(path: Path, *, limit: int) -> bytes:
    """All of a regular file, or of one that the path is a link to. Raises OSError, also where it has more bytes."""
    with open_regular(str(path), follow=True) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"it has more than {limit} bytes")
    return data
