"""Reads the log of one container instance from its files: all that rotation has left of it, oldest first (LG-3).

Blocking; `minikubelet logs` uses it, beside the runtime that writes and the rotation that renames. A pod that has the
folder of logs mounted can put anything there: no link is followed, and only regular files are opened.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self, cast

from minikubelet.pods.log_files import PACKED, attempts, put_aside
from minikubelet.runtime.log_lines import Joiner
from minikubelet.runtime.regular_files import open_regular

#: How often the files are listed anew because rotation was at work meanwhile.
_TRIES = 10
_CHUNK = 1 << 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def container_folder(top: Path, pod: str, container: str) -> Iterator[int]:
    """A descriptor of `top/pod/container`. Links count in `top` only. Raises OSError, ValueError."""
    with contextlib.ExitStack() as stack:
        folder = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        for name in (pod, container):
            if "/" in name or name in ("", ".", ".."):
                raise ValueError(f"{name!r} is no name of a folder")
            folder = os.open(name, _FOLDER, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder


def instances(folder: int) -> list[int]:
    """The restart counts of the instances of which there is a log, oldest first."""
    return attempts(_names(folder))


def _names(folder: int) -> list[str]:
    return os.listdir(folder)  # of a descriptor, which Path does not take


class LogReader:
    """Each `read` gives the lines that have come since the one before, across rotations."""

    def __init__(self, folder: int, attempt: int) -> None:
        """Raises OSError."""
        self._folder = folder
        self._log = f"{attempt}.log"
        self._joiner = Joiner()
        self._aside: list[BinaryIO] = []
        #: What is or was written: the newest last. The runtime may write on to the one before for a moment.
        self._written: list[_Tail] = []
        self._open()

    @property
    def name(self) -> str:
        """Of the file that is written."""
        return self._log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self) -> Iterator[bytes]:
        """Lines as the container wrote them, without line feeds. Raises OSError."""
        while self._aside:
            with self._aside.pop(0) as file:
                yield from self._joined(line.removesuffix(b"\n") for line in file)
        for tail in self._written:
            yield from self._joined(tail.lines())
        while self._begun_anew():
            yield from self._joined(self._written[-1].lines())

    def rest(self) -> Iterator[bytes]:
        """What has no end: no more will come."""
        for tail in self._written:
            yield from self._joined(tail.rest())
        yield from self._joiner.rest()

    def _joined(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        return (text for text in map(self._joiner.take, lines) if text is not None)

    def _begun_anew(self) -> bool:
        """There is a new file under the log's name: it is read from now on."""
        try:
            file = open_regular(self._log, folder=self._folder)
        except FileNotFoundError:  # put aside, and not begun anew yet
            return False
        if self._written and os.path.samestat(os.fstat(file.fileno()), self._written[-1].stat):
            file.close()
            return False
        for old in self._written[:-1]:
            old.close()
        self._written = [*self._written[-1:], _Tail(file)]
        return True

    def _open(self) -> None:
        """All files at once, as they are at one moment."""
        for _ in range(_TRIES):
            names = put_aside(self._log, _names(self._folder))
            try:
                for name in names:
                    self._aside.append(_unpacked(open_regular(name, folder=self._folder), name))
                self._begun_anew()
            except FileNotFoundError:
                pass
            else:
                if names == put_aside(self._log, _names(self._folder)):
                    return
            self._close()
        raise OSError("its files change all the time")

    def _close(self) -> None:
        for file in self._aside:
            file.close()
        for tail in self._written:
            tail.close()
        self._aside, self._written = [], []


def _unpacked(file: BinaryIO, name: str) -> BinaryIO:
    if not name.endswith(PACKED):
        return file
    with file:
        return cast("BinaryIO", gzip.open(f"/proc/self/fd/{file.fileno()}"))  # closes what it has opened itself


class _Tail:
    """The lines of a file that grows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = b""
        self.stat = os.fstat(file.fileno())

    def lines(self) -> Iterator[bytes]:
        while chunk := self._file.read(_CHUNK):
            *whole, self._begun = (self._begun + chunk).split(b"\n")
            yield from whole

    def rest(self) -> Iterator[bytes]:
        begun, self._begun = self._begun, b""
        return iter([begun] if begun else [])

    def close(self) -> None:
        self._file.close()
