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

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Bytes that are read, and sent, at a time; must stay well below containerd's limit of 16 MiB for a message.
PIECE = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: What real archives stay far below, and what keeps memory in bounds whatever the file is.
_MOST_MEMBERS = 10_000
_LARGEST_DOCUMENT, _ALL_DOCUMENTS = 4 << 20, 32 << 20
_ALGORITHMS = ("sha256", "sha512")


class ArchiveError(Exception):
    """The file is not an image archive, or not a whole one. The text says what is wrong with it."""


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


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading. Raises ArchiveError, with its path."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ArchiveError(f"{path}: is not a regular file")
        # By descriptor, since it was opened so that a pipe cannot hold us up.
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            yield cast("IO[bytes]", file)
    finally:
        os.close(descriptor)


def survey(file: IO[bytes], *, cancelled: Callable[[], bool] = lambda: False) -> Mapping[str, Member]:
    """All that is in the archive, by name. Reads the whole file.

    `cancelled` is asked before each piece; then what was found so far comes back. Raises ArchiveError.
    """
    found: dict[str, Member] = {}
    left = _ALL_DOCUMENTS
    with _told(), _tar(file) as tar:
        for member in tar:
            if len(found) >= _MOST_MEMBERS:
                raise ArchiveError(f"has more than {_MOST_MEMBERS} files, which no image archive has")
            name = _plain(member.name)
            if member.issym():
                found[name] = Member(link=_plain(posixpath.join(posixpath.dirname(name), member.linkname)))
            elif member.islnk():
                found[name] = Member(link=_plain(member.linkname))
            elif member.isfile():
                found[name] = _read(tar, member, name, room=left, cancelled=cancelled)
                left -= len(found[name].document or b"")
            if cancelled():
                break
    return found


def pieces(file: IO[bytes], wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """The content of these members, in the archive's order: name and piece by piece. Stops after the last of them.

    An empty piece ends each member. Raises ArchiveError.
    """
    left = set(wanted)
    with _told(), _tar(file) as tar:
        for member in tar:
            name = _plain(member.name)
            if name not in left or not member.isfile():
                continue
            left.discard(name)
            source = tar.extractfile(member)
            while source is not None and (piece := source.read(PIECE)):
                yield name, piece
            yield name, b""
            if not left:
                return


def _read(
    tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, *, room: int, cancelled: Callable[[], bool]
) -> Member:
    source = tar.extractfile(member)
    if source is None:
        return Member()
    digest = hashlib.new(_algorithm(name), usedforsecurity=True)
    piece = head = source.read(PIECE)
    may_be_document = head[:1] in (b"{", b"[") and member.size <= _LARGEST_DOCUMENT
    if may_be_document and member.size > room:
        raise ArchiveError(f"has more than {_ALL_DOCUMENTS >> 20} MiB of JSON, which no image archive has")
    document = bytearray()
    while piece and not cancelled():
        digest.update(piece)
        if may_be_document:
            document += piece
        piece = source.read(PIECE)
    return Member(
        size=member.size,
        digest=f"{digest.name}:{digest.hexdigest()}",
        head=head[:4],
        document=bytes(document) if may_be_document else None,
    )


def _algorithm(name: str) -> str:
    """By which a blob is named; sha256 for what is named otherwise."""
    folder = name.removeprefix("blobs/").partition("/")[0] if name.startswith("blobs/") else ""
    return folder if folder in _ALGORITHMS else "sha256"


@contextlib.contextmanager
def _tar(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    file.seek(0)
    head = file.read(4)
    file.seek(0)
    if head.startswith((GZIP, ZSTD)):
        packed = gzip.open(file) if head.startswith(GZIP) else zstd.open(file)  # noqa: SIM115  below
        with cast("IO[bytes]", packed) as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=PIECE) as tar:
            yield tar
    else:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            yield tar


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say what goes wrong inside in words for people."""
    try:
        yield
    except EOFError as error:
        raise ArchiveError("ends too early: it was not copied to its end") from error
    except tarfile.TarError as error:
        if "unexpected end of data" in str(error):
            raise ArchiveError("ends too early: it was not copied to its end") from error
        raise ArchiveError(f"is not a tar archive, or a damaged one: {error}") from error
    except (zlib.error, zstd.ZstdError, OSError) as error:
        raise ArchiveError(f"cannot be read: {error}") from error


def _plain(name: str) -> str:
    return posixpath.normpath(name)
