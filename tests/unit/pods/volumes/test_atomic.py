"""The atomic writer: what readers see at any moment, and after a crash at any point (VO-10)."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minikubelet.pods.volumes import atomic
from minikubelet.pods.volumes.atomic import File, current, write
from minikubelet.pods.volumes.plugin import PluginError


def nobody(_: Path) -> None: ...


def files(*, mode: int = 0o644, **contents: str) -> dict[str, File]:
    return {name.replace("__", "/"): File(text.encode(), mode) for name, text in contents.items()}


def seen(directory: Path) -> dict[str, str]:
    """What a reader of the volume finds under the names that are meant for it."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for entry in directory.iterdir()
        if not entry.name.startswith("..")
        for path in ([entry] if entry.is_file() else entry.rglob("*"))
        if path.is_file()
    }


def link(path: Path) -> str:
    return str(path.readlink())


def hidden(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir() if entry.name.startswith(".."))


def test_vo_10_names_are_links_through_one_link_to_a_stamped_directory(tmp_path: Path) -> None:
    assert write(tmp_path, files(a="1", deep__er__b="2"), own=nobody)
    data = link(tmp_path / "..data")
    assert hidden(tmp_path) == sorted(["..data", data])
    assert (link(tmp_path / "a"), link(tmp_path / "deep")) == ("..data/a", "..data/deep")
    assert stat.S_IMODE((tmp_path / data).stat().st_mode) == 0o755
    assert seen(tmp_path) == {"a": "1", "deep/er/b": "2"}
    assert current(tmp_path) == tmp_path / data


@pytest.mark.parametrize("mode", [0o644, 0o400, 0o777, 0o000])
def test_vo_10_modes_are_exact_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        write(tmp_path, files(mode=mode, a="1"), own=nobody)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_vo_10_without_a_difference_nothing_is_written(tmp_path: Path) -> None:
    write(tmp_path, files(a="1", b__c="2"), own=nobody)
    data = link(tmp_path / "..data")
    assert not write(tmp_path, files(a="1", b__c="2", mode=0o600), own=nobody), "modes are not compared"
    assert link(tmp_path / "..data") == data
    (tmp_path / "a").unlink()
    assert not write(tmp_path, files(a="1", b__c="2"), own=nobody)
    assert seen(tmp_path) == {"a": "1", "b/c": "2"}, "a missing link is made again"


@pytest.mark.parametrize(
    "after",
    [files(a="2"), files(b="1"), files(a="1", b="1"), files(), files(a__b="1"), files(c="", d__e="x" * 100_000)],
    ids=lambda payload: ",".join(payload) or "nothing",
)
def test_vo_10_what_changed_is_seen_and_nothing_else_is_left(tmp_path: Path, after: dict[str, File]) -> None:
    write(tmp_path, files(a="1", x__y="old"), own=nobody)
    assert write(tmp_path, after, own=nobody)
    assert seen(tmp_path) == {name: file.content.decode() for name, file in after.items()}
    assert len(hidden(tmp_path)) == 2


def test_vo_10_an_empty_volume_has_been_written_too(tmp_path: Path) -> None:
    assert write(tmp_path, {}, own=nobody)
    assert current(tmp_path) is not None
    assert not write(tmp_path, {}, own=nobody)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "must not be empty"),
        ("/etc/passwd", "must be relative path: /etc/passwd"),
        ("a/../../b", "must not contain '..': a/../../b"),
        ("..", "must not contain '..': .."),
        ("..data", "must not start with '..': ..data"),
        ("x" * 256, "filename must be less than or equal to 255 characters"),
        ("x/" * 2100, "must be less than or equal to 4096 characters"),
    ],
)
def test_vo_10_paths_that_are_refused(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(PluginError, match=f"invalid path: {message}"):
        write(tmp_path, {path: File(b"", 0o644)}, own=nobody)
    assert list(tmp_path.iterdir()) == []


def test_a_path_cannot_be_a_file_and_a_directory(tmp_path: Path) -> None:
    write(tmp_path, files(a="old"), own=nobody)
    with pytest.raises(PluginError, match="cannot be a file and a directory at once"):
        write(tmp_path, files(x="1", x__y="2"), own=nobody)
    assert seen(tmp_path) == {"a": "old"}
    write(tmp_path, files(a="new"), own=nobody)
    assert len(hidden(tmp_path)) == 2, "what the failed write left is gone"


def test_the_owner_gets_the_new_files_before_they_are_seen(tmp_path: Path) -> None:
    def look(directory: Path) -> None:
        assert not (directory / "a").exists()
        assert [path.read_text() for path in directory.glob("..*/a")] == ["1"]

    write(tmp_path, files(a="1"), own=look)


def test_vo_12_a_directory_for_another_mount_stays(tmp_path: Path) -> None:
    write(tmp_path, files(a="1"), own=nobody)
    (tmp_path / "nested").mkdir()
    write(tmp_path, files(a="2"), own=nobody)
    assert (tmp_path / "nested").is_dir()
    with pytest.raises(PluginError, match="nested is in the way"):
        write(tmp_path, files(nested="1"), own=nobody)


# ---- crashes --------------------------------------------------------------------------
class Killed(BaseException):
    """As if the daemon had died here."""


@contextmanager
def killed_after(calls: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let so many calls that change something happen, and die instead of the next."""
    left = calls

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("open", "mkdir", "chmod", "fchmod", "write", "symlink", "rename", "unlink", "rmdir"):
            patch.setattr(os, name, dying(getattr(os, name)))
        yield


OLD, NEW = files(a="old", b="old", gone="old"), files(a="new", b="new", c__d="new")


def contents(payload: dict[str, File]) -> dict[str, str]:
    return {name: file.content.decode() for name, file in payload.items()}


def test_vo_10_a_crash_at_any_point_leaves_all_of_the_old_or_all_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = set()
    for calls in range(200):
        directory = tmp_path / str(calls)
        directory.mkdir()
        write(directory, OLD, own=nobody)
        try:
            with killed_after(calls, monkeypatch):
                write(directory, NEW, own=nobody)
        except Killed:
            finished = False
        else:
            finished = True
        through = current(directory)
        assert through is not None
        found = {str(path.relative_to(through)): path.read_text() for path in through.rglob("*") if path.is_file()}
        assert found in (contents(OLD), contents(NEW)), f"after {calls} calls"
        outcomes.add(found == contents(NEW))
        write(directory, NEW, own=nobody)
        assert seen(directory) == contents(NEW), f"after {calls} calls and another write"
        assert len(hidden(directory)) == 2, f"after {calls} calls and another write"
        if finished:
            break
    else:
        pytest.fail("the write never ended")
    assert outcomes == {True, False}


def test_vo_10_readers_never_see_a_mixture(tmp_path: Path) -> None:
    """A reader that holds the directory open reads one generation, however often the writer switches."""
    ended = threading.Event()
    write(tmp_path, files(a="0", b="0"), own=nobody)
    mixtures, whole = [], 0

    def read() -> None:
        nonlocal whole
        while not ended.is_set():
            try:
                fd = os.open(tmp_path / "..data", os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue  # a whole generation was gone between the link and what it leads to
            try:
                values = []
                for name in ("a", "b"):
                    file = os.open(name, os.O_RDONLY, dir_fd=fd)
                    values.append(os.read(file, 100))
                    os.close(file)
            except FileNotFoundError:
                continue
            finally:
                os.close(fd)
            whole += 1
            if values[0] != values[1] or not values[0]:
                mixtures.append(values)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for generation in range(300):
            write(tmp_path, files(a=str(generation), b=str(generation)), own=nobody)
    finally:
        ended.set()
        reader.join()
    assert mixtures == []
    assert whole > 0


def test_the_visible_name_never_goes_away_while_it_is_rewritten(tmp_path: Path) -> None:
    ended = threading.Event()
    write(tmp_path, files(a="x"), own=nobody)
    missing = []

    def look() -> None:
        while not ended.is_set():
            if not os.path.lexists(tmp_path / "a") or not os.path.lexists(tmp_path / "..data"):
                missing.append(1)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for generation in range(200):
            write(tmp_path, files(a=str(generation)), own=nobody)
    finally:
        ended.set()
        reader.join()
    assert missing == []


def test_a_files_content_is_not_shown() -> None:
    assert repr(atomic.File(b"hunter2", 0o600)) == "File(7 bytes, 0600)"
