"""Reading archives from front to back: how they are packed, links, damage, and the bounds."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from minikubelet.runtime import archive_file
from minikubelet.runtime.archive_contents import read_contents
from minikubelet.runtime.archive_file import ArchiveError, GivenUpError, Member, pieces, survey
from minikubelet.runtime.archive_reader import ArchiveReader

BIG = bytes(range(256)) * (archive_file.PIECE // 256 * 2 + 1)
_CHECKED: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
FILES = {"a.json": b"{}", "folder/big": BIG, "small": b"x"}


def tar(files: dict[str, bytes] | None = None, links: dict[str, tuple[bytes, str]] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, data in (FILES if files is None else files).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
        for name, (kind, target) in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            made.addfile(member)
    return buffer.getvalue()


PACKS = pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["tar", "tar.gz", "tar.zst"])


@PACKS
def test_members_are_found_with_their_digests_however_packed(pack: Callable[[bytes], bytes]) -> None:
    found = survey(io.BytesIO(pack(tar())))
    assert found["a.json"] == Member(
        size=2, digest="sha256:" + hashlib.sha256(b"{}").hexdigest(), head=b"{}", document=b"{}"
    )
    assert found["folder/big"].digest == "sha256:" + hashlib.sha256(BIG).hexdigest()
    assert found["folder/big"].document is None


@PACKS
def test_pieces_come_in_the_archives_order_each_member_with_its_end(pack: Callable[[bytes], bytes]) -> None:
    given = list(pieces(io.BytesIO(pack(tar())), {1, 2}))
    assert [place for place, _ in given] == [1] * 4 + [2] * 2
    assert b"".join(data for place, data in given if place == 1) == BIG
    assert max(len(data) for _, data in given) <= archive_file.PIECE
    assert [data for _, data in given if not data] == [b"", b""]


@PACKS
@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_half_an_archive_is_told_as_such(pack: Callable[[bytes], bytes], keep: float) -> None:
    whole = pack(tar({"noise": os.urandom(3 << 20)}))
    with pytest.raises(ArchiveError, match="ends too early"):
        survey(io.BytesIO(whole[: int(len(whole) * keep)]))


@pytest.mark.parametrize("pack", [gzip.compress, lambda it: zstd.compress(it, options=_CHECKED)], ids=["gzip", "zstd"])
def test_the_checksum_at_the_end_of_a_packed_file_is_looked_at(pack: Callable[[bytes], bytes]) -> None:
    packed = bytearray(pack(tar()))
    packed[-6 if packed[:2] == archive_file.GZIP else -1] ^= 1
    with pytest.raises(ArchiveError, match="cannot be read"):
        survey(io.BytesIO(packed))


@PACKS
def test_what_comes_after_the_end_is_read_to_a_bound(pack: Callable[[bytes], bytes]) -> None:
    assert survey(io.BytesIO(pack(tar() + bytes(1 << 20)))).keys() == FILES.keys()
    with pytest.raises(ArchiveError, match="goes on after its end"):
        survey(io.BytesIO(pack(tar() + bytes(17 << 20))))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "not a tar archive", id="empty"),
        pytest.param(b"no tar at all " * 100, "not a tar archive", id="text"),
        pytest.param(b"\x1f\x8bbroken", "cannot be read|ends too early", id="bad gzip"),
        pytest.param(b"\x28\xb5\x2f\xfdbroken", "cannot be read|ends too early", id="bad zstd"),
        pytest.param(gzip.compress(b"no tar at all " * 100), "not a tar archive", id="gzipped text"),
    ],
)
def test_what_is_no_archive_is_told(content: bytes, problem: str) -> None:
    with pytest.raises(ArchiveError, match=problem):
        survey(io.BytesIO(content))


def test_links_and_names_are_made_plain() -> None:
    links = {"./b/layer.tar": (tarfile.SYMTYPE, "../folder/big"), "hard": (tarfile.LNKTYPE, "./small")}
    found = survey(io.BytesIO(tar(links=links)))
    assert found["b/layer.tar"].link == "folder/big"
    assert found["hard"].link == "small"


def test_blobs_are_counted_by_the_algorithm_that_names_them() -> None:
    found = survey(io.BytesIO(tar({"blobs/sha512/x": b"1", "blobs/md5/x": b"1"})))
    assert found["blobs/sha512/x"].digest == "sha512:" + hashlib.sha512(b"1").hexdigest()
    assert found["blobs/md5/x"].digest.startswith("sha256:")


def test_memory_is_bounded_whatever_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_file, "_ALL_DOCUMENTS", 100)
    with pytest.raises(ArchiveError, match="of JSON"):
        survey(io.BytesIO(tar({f"{i}": b"{" + b" " * 50 for i in range(3)})))
    monkeypatch.setattr(archive_file, "_LARGEST_DOCUMENT", 10)
    assert survey(io.BytesIO(tar({"a": b"{" + b" " * 50})))["a"].document is None


def test_reading_ends_soon_when_nobody_wants_it_any_more() -> None:
    asked = iter([False, False])
    with pytest.raises(GivenUpError):
        survey(io.BytesIO(tar()), given_up=lambda: next(asked, True))
    assert next(asked, None) is None


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda _: None, "cannot be read: No such file", id="missing"),
        pytest.param(lambda path: path.mkdir(), "is not a regular file", id="folder"),
        pytest.param(os.mkfifo, "is not a regular file", id="pipe"),
    ],
)
async def test_a_file_that_cannot_be_one_is_told_with_its_path(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    make(tmp_path / "x.tar")
    with pytest.raises(ArchiveError, match=rf"x\.tar: {problem}"):
        async with ArchiveReader(tmp_path / "x.tar") as reader:
            await reader.contents()


def test_of_several_members_with_one_name_the_last_counts() -> None:
    doubled = tar({"a.json": b"old", "x": b"x"})[: 4 * tarfile.BLOCKSIZE] + tar({"a.json": b"{}"})
    found = survey(io.BytesIO(doubled))
    assert found["a.json"].document == b"{}"
    assert list(pieces(io.BytesIO(doubled), {found["a.json"].place})) == [(2, b"{}"), (2, b"")]


@PACKS
@given(seed=st.integers(0, 2**32), spoiled=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_whatever_a_file_is_it_is_read_or_told(pack: Callable[[bytes], bytes], seed: int, spoiled: int) -> None:
    random = Random(seed)  # noqa: S311
    data = bytearray(pack(_IMAGE))
    for _ in range(spoiled):
        data[random.randrange(len(data))] = random.randrange(256)
    with contextlib.suppress(ArchiveError):
        read_contents(survey(io.BytesIO(data[: random.choice([len(data), random.randrange(len(data))])])))


_IMAGE = tar(
    {
        "manifest.json": b'[{"Config": "c.json", "RepoTags": ["x:1"], "Layers": ["l.tar"]}]',
        "c.json": b'{"rootfs": {"diff_ids": []}}',
        "l.tar": os.urandom(5000),
    }
)
