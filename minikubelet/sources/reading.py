"""Reading one file so that half of it is never taken for the whole. `sources.listing` and `archives` are the callers.

While a file is read it is under a read lease (`fcntl(F_SETLEASE, F_RDLCK)`). The kernel grants one only when nobody
has the file open for writing, and refuses with EAGAIN otherwise; so "is somebody writing this?" is asked of the
kernel and not guessed from times. While the lease is held, whoever opens the file for writing waits until it is let
go, which is microseconds later. The signal that announces such an opener is set to SIGURG, which does nothing (SIGIO
would end the process).

A lease needs a local file system, and the file's owner or CAP_LEASE. Where there is none `read_quietly` falls back to
comparing the file before and after, and says so in `Content.leased`, so that the caller may be more careful.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Files of this many bytes or more are refused (LC 12.1).
SIZE_LIMIT = 10 * 1024 * 1024


class BeingWrittenError(Exception):
    """Somebody has the file open for writing, or wrote while it was read.

    `settles_in`: seconds after which it may be taken for whole all the same, where only its age can tell.
    """

    def __init__(self, settles_in: float | None = None) -> None:
        super().__init__("is being written")
        self.settles_in = settles_in


class UnusableError(Exception):
    """The file cannot be a manifest, or cannot be read; the message says why, for people."""


class Signature(NamedTuple):
    """What tells one state of a file from another without reading it. Follows symbolic links."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int  # also moves with chmod and chown


class Content(NamedTuple):
    data: bytes
    signature: Signature
    leased: bool


def signature_of(found: os.stat_result) -> Signature:
    return Signature(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read_quietly(path: Path) -> Content:
    """The whole content of a regular file that nobody is writing.

    Raises BeingWrittenError, UnusableError, and FileNotFoundError when the file has just gone.
    """
    with _opened(path) as descriptor:
        return _read(descriptor)


def signature_quietly(path: Path) -> tuple[Signature, bool]:
    """The state of a regular file that nobody is writing, and whether a lease vouches for that. Raises as above."""
    with _opened(path) as descriptor:
        leased = take_lease(descriptor)
        found = os.fstat(descriptor)
        _check_regular(found)
        return signature_of(found), leased


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        _check_regular(path.stat())  # before open: opening a pipe or a device can have effects
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:  # another process holds a write lease on it
            raise BeingWrittenError from error
        raise UnusableError(f"cannot be read: {error.strerror}") from error
    try:
        yield descriptor
    except OSError as error:
        raise UnusableError(f"cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)  # the lease ends with it


def _read(descriptor: int) -> Content:
    leased = take_lease(descriptor)
    before = os.fstat(descriptor)
    _check_regular(before)
    chunks: list[bytes] = []
    size = 0
    while size < SIZE_LIMIT and (chunk := os.read(descriptor, min(SIZE_LIMIT - size, 1 << 20))):
        chunks.append(chunk)
        size += len(chunk)
    if size >= SIZE_LIMIT:
        raise UnusableError(f"is too large: a manifest file must be smaller than {SIZE_LIMIT >> 20} MiB")
    signature = signature_of(before)
    if signature_of(os.fstat(descriptor)) != signature:
        raise BeingWrittenError
    return Content(b"".join(chunks), signature, leased)


def take_lease(descriptor: int) -> bool:
    """Take a read lease.

    False where there is no such thing; raises BeingWrittenError when a writer has the file open.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise BeingWrittenError from error
        return False
    return True


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnusableError("is not a regular file; only files are read")
