"""A tar from front to back, of which nobody knows who has made it: whatever it says, little memory and no recursion.

`tarfile` reads a header of any size into memory, follows chains of them by recursion, and remembers every member; so
only its decoding of a single header block is used. `archive_file` is the caller. Blocking.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

#: Bytes that are read at a time.
PIECE = 1 << 20
#: What real archives stay far below. Headers are those that hold long names, of one member and of all.
MOST_MEMBERS = 10_000
_LARGEST_HEADER, _ALL_HEADERS = 1 << 20, 32 << 20
#: Headers that may come before one member: of GNU and of pax one for its name and one for its link, and a global one.
_MOST_HEADERS = 8
#: Bytes after the end; tar fills up what it writes.
_MOST_PADDING = 16 << 20
#: Bytes of content, whatever the file's own size is: an image of a petabyte of zeros packs well.
_ALL_CONTENT = 1 << 40
_PAX, _PAX_GLOBAL = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE), tarfile.XGLTYPE
_LONG = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
#: These have no content, whatever size is given.
_EMPTY = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE)
_BLOCK = tarfile.BLOCKSIZE


class ArchiveError(Exception):
    """The file is not an image archive, or not a whole one. The text says what is wrong with it."""


class GivenUpError(Exception):
    """Nobody wants the rest any more."""


class Source(Protocol):
    """A file, as far as it is needed."""

    def read(self, count: int, /) -> bytes: ...


class Entry(NamedTuple):
    """A member; its content is to be had until the next one is asked for."""

    #: Which one it is in the archive: names may come several times.
    place: int
    name: str
    link: str
    type: bytes
    size: int
    #: The content, piece by piece.
    content: Iterator[bytes]

    @property
    def is_file(self) -> bool:
        return self.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class TarStream:
    def __init__(self, file: Source, *, given_up: Callable[[], bool] = lambda: False) -> None:
        """`given_up` is asked before each piece."""
        self._file = file
        self._given_up = given_up
        self._headers = self._content = 0

    def entries(self) -> Iterator[Entry]:
        """All members. Raises ArchiveError, GivenUpError, and what reading the file raises."""
        place = 0
        while (found := self._member(first=place == 0)) is not None:
            name, link, kind, size = found
            if place >= MOST_MEMBERS:
                raise ArchiveError(f"has more than {MOST_MEMBERS} members, which no image archive has")
            self._content += size
            if size < 0 or self._content > _ALL_CONTENT:
                raise ArchiveError("is damaged: it says that it holds more than a terabyte")
            content = self._pieces(size)
            yield Entry(place, name, link, kind, size, content)
            for _ in content:
                pass
            place += 1

    def finish(self) -> None:
        """Read what comes after the last member: only at its end a packed file tells whether it was whole."""
        left = _MOST_PADDING
        while piece := self._read(PIECE):
            left -= len(piece)
            if left < 0:
                raise ArchiveError("goes on after its end")

    def _member(self, *, first: bool) -> tuple[str, str, bytes, int] | None:
        """Name, link's target, type, size of the content. None: the archive has ended."""
        name = link = size = None
        for _ in range(_MOST_HEADERS):
            header = self._header(first=first)
            if header is None:
                return None
            first = False
            if header.type in _LONG:
                text = _text(self._extended(header).split(b"\0", 1)[0])
                name, link = (text, link) if header.type == tarfile.GNUTYPE_LONGNAME else (name, text)
            elif header.type in _PAX:
                records = _records(self._extended(header))
                name, link = records.get("path", name), records.get("linkpath", link)
                size = records.get("size", size)
            elif header.type == _PAX_GLOBAL:  # says nothing of a single member
                self._extended(header)
            elif header.type == tarfile.GNUTYPE_SPARSE:
                raise _sparse()
            else:
                empty = header.type in _EMPTY
                return (
                    header.name if name is None else name,
                    header.linkname if link is None else link,
                    header.type,
                    0 if empty else header.size if size is None else _number(size),
                )
        raise ArchiveError(f"is damaged: a member has more than {_MOST_HEADERS} headers")

    def _header(self, *, first: bool) -> tarfile.TarInfo | None:
        block = self._exactly(_BLOCK, may_end=not first)
        if not block:
            return None
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if not block.strip(b"\0"):
                return None
            what = "is not a tar archive, or a damaged one" if first else "is damaged"
            raise ArchiveError(f"{what}: {error}") from error

    def _extended(self, header: tarfile.TarInfo) -> bytes:
        """What a header that is a file of its own says."""
        self._headers += header.size
        if not 0 <= header.size <= _LARGEST_HEADER or self._headers > _ALL_HEADERS:
            raise ArchiveError(f"is damaged: a header of it has {header.size} bytes, which no image archive needs")
        return b"".join(self._pieces(header.size))

    def _pieces(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            piece = self._read(min(left, PIECE))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield piece
        self._exactly(-size % _BLOCK)

    def _exactly(self, count: int, *, may_end: bool = False) -> bytes:
        data = b""
        while len(data) < count:
            piece = self._read(count - len(data))
            if not piece:
                if may_end and not data:
                    break
                raise EOFError
            data += piece
        return data

    def _read(self, count: int) -> bytes:
        if self._given_up():
            raise GivenUpError
        return self._file.read(count)


def _records(data: bytes) -> dict[str, str]:
    """What a pax header says of a member's name, link and size: `LENGTH KEY=VALUE` and a newline, each."""
    records = {}
    start = 0
    while start < len(data) and data[start]:
        space = data.find(b" ", start, start + 20)
        digits = data[start:space]
        end = start + int(digits) if space > start and digits.isdigit() else 0
        if not space < end <= len(data) or data[end - 1] != ord("\n"):
            raise ArchiveError("is damaged: a pax header is not well-formed")
        key, _, value = data[space + 1 : end - 1].partition(b"=")
        if key.startswith(b"GNU.sparse."):
            raise _sparse()
        if key in (b"path", b"linkpath", b"size"):
            records[key.decode()] = _text(value)
        start = end
    return records


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ArchiveError("is damaged: a pax header gives a size that is no number")
    return int(text)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _sparse() -> ArchiveError:
    return ArchiveError("has a sparse file in it, which no image archive has; pack it without --sparse")
