"""The file of an image archive, read from front to back: tar, plain or packed with gzip or zstd. Blocking; no gRPC.

An archive is read twice. `survey` reads all of it, so that nothing is written of one that is damaged or not whole;
`pieces` then gives what is to be written. Neither keeps more in memory than a piece and the small JSON documents, and
nothing is unpacked onto the disk. `archive` is the caller; `archive_contents` makes sense of what was found.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import posixpath
import stat
import sys
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, cast

import msgspec

from minikubelet.runtime.tar_stream import PIECE, ArchiveError, Entry, GivenUpError, TarStream

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["GZIP", "PIECE", "ZSTD", "ArchiveError", "GivenUpError", "Member", "opened", "pieces", "survey"]

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: What real archives stay far below, and what keeps memory in bounds whatever the file is.
_LARGEST_DOCUMENT, _ALL_DOCUMENTS = 4 << 20, 32 << 20
_ALGORITHMS = ("sha256", "sha512")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the archive, or a link to one."""

    size: int = 0
    #: Computed, not claimed: `sha256:…`.
    digest: str = ""
    #: How it begins, which tells how it is packed.
    head: bytes = b""
    #: All of it, if it may be a JSON document.
    document: bytes | None = None
    #: Another member's name: it stands for that one.
    link: str = ""
    #: Which member it is: of several with one name the last counts.
    place: int = 0


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading. Raises ArchiveError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ArchiveError(f"cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ArchiveError("is not a regular file")
        # By descriptor, since it was opened so that a pipe cannot hold us up.
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield cast("IO[bytes]", file)
    finally:
        os.close(descriptor)


def survey(file: IO[bytes], *, given_up: Callable[[], bool] = lambda: False) -> Mapping[str, Member]:
    """All that is in the archive, by name. Reads the whole file.

    `given_up` is asked before each piece. Raises ArchiveError, GivenUpError.
    """
    found: dict[str, Member] = {}
    left = _ALL_DOCUMENTS
    with _told(), _tar(file, given_up) as tar:
        for entry in tar.entries():
            name = _plain(entry.name)
            if entry.type == tarfile.SYMTYPE:
                target = _plain(posixpath.join(posixpath.dirname(name), entry.link))
                found[name] = Member(link=target, place=entry.place)
            elif entry.type == tarfile.LNKTYPE:
                found[name] = Member(link=_plain(entry.link), place=entry.place)
            elif entry.is_file:
                found[name] = _read(entry, name, room=left)
                left -= len(found[name].document or b"")
        tar.finish()
    return found


def pieces(
    file: IO[bytes], wanted: Collection[int], *, given_up: Callable[[], bool] = lambda: False
) -> Iterator[tuple[int, bytes]]:
    """The content of the members at these places, in the archive's order: piece by piece. Stops after the last of them.

    An empty piece ends each member. `given_up` is asked before each piece. Raises ArchiveError, GivenUpError.
    """
    last = max(wanted, default=-1)
    with _told(), _tar(file, given_up) as tar:
        for entry in tar.entries():
            if entry.place in wanted:
                for piece in entry.content:
                    yield entry.place, piece
                yield entry.place, b""
            if entry.place >= last:
                return


def _read(entry: Entry, name: str, *, room: int) -> Member:
    digest = hashlib.new(_algorithm(name), usedforsecurity=True)
    head = b""
    document: bytearray | None = None
    for piece in entry.content:
        if not head:
            head = piece
            if head[:1] in (b"{", b"[") and entry.size <= _LARGEST_DOCUMENT:
                document = bytearray()
                if entry.size > room:
                    raise ArchiveError(f"has more than {_ALL_DOCUMENTS >> 20} MiB of JSON, which no image archive has")
        digest.update(piece)
        if document is not None:
            document += piece
    return Member(
        size=entry.size,
        digest=f"{digest.name}:{digest.hexdigest()}",
        head=head[:4],
        document=None if document is None else bytes(document),
        place=entry.place,
    )


def _algorithm(name: str) -> str:
    """By which a blob is named; sha256 for what is named otherwise."""
    folder = name.removeprefix("blobs/").partition("/")[0] if name.startswith("blobs/") else ""
    return folder if folder in _ALGORITHMS else "sha256"


@contextlib.contextmanager
def _tar(file: IO[bytes], given_up: Callable[[], bool]) -> Iterator[TarStream]:
    file.seek(0)
    head = file.read(4)
    file.seek(0)
    if head.startswith((GZIP, ZSTD)):
        packed = gzip.open(file) if head.startswith(GZIP) else zstd.open(file)  # noqa: SIM115  below
        with cast("IO[bytes]", packed) as plain:
            yield TarStream(plain, given_up=given_up)
    elif head:
        yield TarStream(file, given_up=given_up)
    else:
        raise ArchiveError("is not a tar archive: it is empty")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say what goes wrong inside in words for people."""
    try:
        yield
    except EOFError as error:
        raise ArchiveError("ends too early: it was not copied to its end") from error
    except (zlib.error, zstd.ZstdError, OSError) as error:
        raise ArchiveError(f"cannot be read: {error}") from error


def _plain(name: str) -> str:
    return posixpath.normpath(name)
