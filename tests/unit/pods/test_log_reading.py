"""The files of one log, read in their order, while rotation is at work (LG-3)."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikubelet.pods.log_reading import LogReader, container_folder, instances


def line(text: str, tag: str = "F") -> bytes:
    return f"2026-01-01T00:00:00Z stdout {tag} {text}\n".encode()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of the container's logs."""
    path = tmp_path / "default_web_u" / "m"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def folder(home: Path) -> Iterator[int]:
    with container_folder(home.parent.parent, home.parent.name, home.name) as folder:
        yield folder


def test_lg_3_files_that_were_put_aside_come_first_packed_ones_too(home: Path, folder: int) -> None:
    (home / "0.log.20260101-000000.gz").write_bytes(gzip.compress(line("a") + line("b1", "P")))
    (home / "0.log.20260102-000000").write_bytes(line("b2") + line("c"))
    (home / "0.log.20260102-000000.gz.tmp").write_bytes(b"half")
    (home / "0.log").write_bytes(line("d") + line("e").removesuffix(b"\n"))
    (home / "1.log").write_bytes(line("another instance"))
    assert instances(folder) == [0, 1]
    with LogReader(folder, 0) as log:
        assert list(log.read()) == [b"a", b"b1b2", b"c", b"d"]
        assert list(log.rest()) == [b"e"]


def test_what_is_written_later_is_read_across_a_rotation_and_nothing_is_lost(home: Path, folder: int) -> None:
    path = home / "0.log"
    with path.open("ab", buffering=0) as before, LogReader(folder, 0) as log:
        before.write(line("a") + b"2026-01-01T00:00:00Z stdout F ")
        assert list(log.read()) == [b"a"]
        before.write(b"b\n")
        path.rename(home / "0.log.20260101-000000")
        assert list(log.read()) == [b"b"]
        before.write(line("c"))
        with path.open("ab", buffering=0) as after:
            after.write(line("d"))
            assert list(log.read()) == [b"c", b"d"]
            before.write(line("late"))
            after.write(line("e"))
            assert list(log.read()) == [b"late", b"e"]
        assert list(log.rest()) == []


@pytest.mark.parametrize("name", ["0.log", "0.log.20260101-000000"])
def test_links_are_not_followed(home: Path, folder: int, name: str) -> None:
    (home / "0.log").write_bytes(b"")
    secret = home.parent / "secret"
    secret.write_bytes(line("secret"))
    (home / name).unlink(missing_ok=True)
    (home / name).symlink_to(secret)
    with pytest.raises(OSError, match="not a regular file"):
        LogReader(folder, 0)


def test_pipes_are_not_opened(home: Path, folder: int) -> None:
    os.mkfifo(home / "0.log")
    with pytest.raises(OSError, match="not a regular file"):
        LogReader(folder, 0)


@pytest.mark.parametrize("name", ["..", "../m", ""])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "default_web_u").mkdir()
    with pytest.raises(ValueError, match="is no name of a folder"), container_folder(tmp_path, "default_web_u", name):
        pass


@pytest.mark.parametrize("linked", ["default_web_u", "default_web_u/m"])
def test_folders_that_are_links_are_not_entered(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "m").mkdir(parents=True)
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(elsewhere)
    with pytest.raises(OSError, match="Not a directory"), container_folder(tmp_path, "default_web_u", "m"):
        pass
