"""Tars that say what no honest one does: they are told, at once and without taking memory."""

from __future__ import annotations

import io
import itertools
import tarfile
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikubelet.runtime.tar_stream import ArchiveError, GivenUpError, TarStream

END = bytes(2 * tarfile.BLOCKSIZE)


class Endless:
    """A file that is made while it is read, so that its size is no matter."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._left = b""
        self.read_bytes = 0

    def read(self, size: int, /) -> bytes:
        if not self._left:
            self._left = next(self._parts, b"")
        data, self._left = self._left[:size], self._left[size:]
        self.read_bytes += len(data)
        return data


def header(kind: bytes, size: int = 0, name: str = "x") -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def zeros(size: int) -> Iterator[bytes]:
    return itertools.repeat(bytes(1 << 20), size >> 20)


def long(kind: bytes, data: bytes) -> bytes:
    return header(kind, len(data)) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def pax(**records: str) -> bytes:
    text = b""
    for key, value in records.items():
        record = f" {key.replace('__', '.')}={value}\n".encode()
        length = next(n for n in itertools.count(len(record)) if len(str(n)) + len(record) == n)
        text += str(length).encode() + record
    return long(tarfile.XHDTYPE, text)


def sparse() -> bytes:
    block = bytearray(header(tarfile.GNUTYPE_SPARSE))
    block[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def big(kind: bytes) -> Iterator[bytes]:
    return itertools.chain([header(kind, 2 << 30)], zeros(64 << 20))


def many(*parts: bytes) -> Iterator[bytes]:
    return itertools.repeat(b"".join(parts))


HEADERS = {
    "pax": tarfile.XHDTYPE,
    "global": tarfile.XGLTYPE,
    "solaris": tarfile.SOLARIS_XHDTYPE,
    "long name": tarfile.GNUTYPE_LONGNAME,
    "long link": tarfile.GNUTYPE_LONGLINK,
}
MEMBERS = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "device": tarfile.CHRTYPE,
    "pipe": tarfile.FIFOTYPE,
    "link": tarfile.SYMTYPE,
    "unknown": b"Z",
}
FILE = header(tarfile.REGTYPE)
MEGABYTE = long(tarfile.GNUTYPE_LONGNAME, b"a" * (1 << 20))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        *(pytest.param(big(kind), "a header of it has", id=f"big {name}") for name, kind in HEADERS.items()),
        *(pytest.param(many(header(kind)), "more than 8 h", id=f"endless {name}") for name, kind in HEADERS.items()),
        *(pytest.param(many(header(kind)), "more than 10000 m", id=f"many {name}") for name, kind in MEMBERS.items()),
        pytest.param(many(MEGABYTE, FILE), "a header of it has", id="many big headers"),
        pytest.param([sparse()], "a sparse file", id="sparse of GNU"),
        pytest.param([pax(GNU__sparse__realsize=str(1 << 40)), FILE], "a sparse file", id="sparse of pax"),
        pytest.param([header(tarfile.REGTYPE, 2 << 40)], "more than a terabyte", id="size"),
        pytest.param([header(tarfile.REGTYPE, -1)], "more than a terabyte", id="size below zero"),
        pytest.param([pax(size=str(2 << 40)), FILE], "more than a terabyte", id="size of pax"),
        pytest.param([pax(size="-1"), FILE], "no number", id="size that is no number"),
        pytest.param([long(tarfile.XHDTYPE, b"1" * 1000)], "not well-formed", id="digits"),
        pytest.param([long(tarfile.XHDTYPE, b"99 path=x\n")], "not well-formed", id="longer than it is"),
        pytest.param([long(tarfile.XHDTYPE, b"0 path=x\n")], "not well-formed", id="no length"),
        pytest.param([FILE, b"x" * 512], "is damaged", id="no header"),
    ],
)
def test_what_no_image_archive_has_is_told(parts: Iterable[bytes], problem: str) -> None:
    file = Endless(parts)
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=problem):
            for _ in TarStream(file).entries():
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert file.read_bytes < 64 << 20


def test_names_links_and_sizes_come_from_the_headers_before() -> None:
    parts = [
        long(tarfile.GNUTYPE_LONGNAME, b"n" * 300 + b"\0"),
        long(tarfile.GNUTYPE_LONGLINK, b"l" * 300 + b"\0"),
        header(tarfile.SYMTYPE),
        pax(path="ä", size="3"),
        header(tarfile.REGTYPE),
        b"abc".ljust(512, b"\0"),
        header(tarfile.REGTYPE, 1, name="last"),
        b"z".ljust(512, b"\0"),
        END,
    ]
    entries = [(it.place, it.name, it.link, b"".join(it.content)) for it in TarStream(Endless(parts)).entries()]
    assert entries == [(0, "n" * 300, "l" * 300, b""), (1, "ä", "", b"abc"), (2, "last", "", b"z")]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, b"Z"])
def test_also_what_is_passed_over_is_given_up(kind: bytes) -> None:
    file = Endless([header(kind, 1 << 39), *zeros(1 << 30)])
    with pytest.raises(GivenUpError):
        for _ in TarStream(file, given_up=lambda: file.read_bytes > 3 << 20).entries():
            pass


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=300)


@given(
    files=st.lists(st.tuples(_NAMES, st.binary(max_size=1500))),
    format_=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
@settings(max_examples=100, deadline=None)
def test_what_tarfile_writes_is_read_back(files: list[tuple[str, bytes]], format_: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    assert [(it.name, b"".join(it.content)) for it in TarStream(buffer).entries()] == files
