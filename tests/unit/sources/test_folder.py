"""The watched folder with the real file system: what takes effect, and what must not."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

import pytest
from asyncinotify import Inotify
from blockbuster import blockbuster_ctx
from structlog.testing import capture_logs

from minikubelet.api.decode import decode_file
from minikubelet.sources import folder_watch, listing, reading
from minikubelet.sources.desired import Desired, Remembered
from minikubelet.sources.folder import FolderSource

decode = functools.partial(decode_file, node_name="node")
#: Longer than any event takes to arrive, also on a busy machine.
PATIENCE = 15.0


def text(name: str, image: str = "busybox") -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: m, image: {image}}}]}}\n"
    )


def stored(name: str, file: str) -> Remembered:
    pod = decode(file, text(name).encode()).objects[0]
    return Remembered(file, pod.metadata.uid, pod)


class Watched:
    """A folder source that runs, and all that it told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: list[Desired] = []
        self._news = asyncio.Event()

    def take(self, now: Desired) -> None:
        self.told.append(now)
        self._news.set()

    @property
    def now(self) -> Desired:
        return self.told[-1]

    @property
    def names(self) -> set[str]:
        return {key.partition("/")[2] for key in self.now.pods}

    async def until(self, test: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not (self.told and test()):
                self._news.clear()
                await self._news.wait()

    async def until_names(self, *names: str) -> None:
        await self.until(lambda: self.names == set(names))

    async def until_broken(self, *files: str) -> None:
        await self.until(lambda: set(self.now.errors) == set(files))

    async def settle(self) -> None:
        """Until everything done before this call was seen: a marker file has come and gone."""
        marker = self.path / "zz-marker.yaml"
        marker.write_text(text("marker"))
        await self.until(lambda: "marker" in self.names)
        marker.unlink()
        await self.until(lambda: "marker" not in self.names)

    def write(self, file: str, content: str) -> None:
        (self.path / file).write_text(content)

    def rename_over(self, file: str, content: str) -> None:
        self.write(f".{file}.tmp", content)
        (self.path / f".{file}.tmp").rename(self.path / file)


@contextlib.asynccontextmanager
async def watching(
    path: Path, *, remembered: Iterable[Remembered] = (), check_frequency: float = 600.0
) -> AsyncIterator[Watched]:
    watched = Watched(path)
    source = FolderSource(path, decode, remembered=remembered, check_frequency=check_frequency)
    task = asyncio.create_task(source.run(watched.take), name="source")
    try:
        await watched.until(lambda: True)
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def _nothing_blocks() -> Iterator[None]:
    with blockbuster_ctx("minikubelet"):
        yield


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "manifests"
    path.mkdir()
    return path


async def test_the_first_thing_told_is_the_whole_folder(home: Path) -> None:
    for name in ("a", "b", "c"):
        (home / f"{name}.yaml").write_text(text(name))
    async with watching(home) as watched:
        assert {key.partition("/")[2] for key in watched.told[0].pods} == {"a", "b", "c"}
        assert watched.now.pods["default/a"].file == "a.yaml"


async def test_only_manifests_are_read_and_only_in_the_folder_itself(home: Path) -> None:  # IN-1
    for file in (
        "a.yaml",
        "b.yml",
        "c.json",
        ".d.yaml",
        "e.txt",
        "f.yaml~",
        "g.yaml.swp",
        "h",
        "yaml",
        "sub.yaml/i.yaml",
    ):
        (home / file).parent.mkdir(exist_ok=True)
        name = file.strip(".").partition(".")[0]
        content = (
            text(name)
            if not file.endswith(".json")
            else (
                '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"},"spec":{"containers":[{"name":"m","image":"i"}]}}'
            )
        )
        (home / file).write_text(content)
    with capture_logs() as logs:
        async with watching(home) as watched:
            assert watched.names == {"a", "b", "c"}
            assert not watched.now.errors
    assert [log["file"] for log in logs if "sub-folders" in log["event"]] == ["sub.yaml"]


async def test_new_changed_and_removed_files_are_seen(home: Path) -> None:
    async with watching(home) as watched:
        assert not watched.now.objects
        watched.write("a.yaml", text("a"))
        await watched.until_names("a")
        first = watched.now.pods["default/a"].pod.metadata.uid
        watched.write("a.yaml", text("a", image="other"))
        await watched.until(lambda: watched.now.pods["default/a"].pod.metadata.uid != first)
        (home / "a.yaml").unlink()
        await watched.until_names()


async def test_a_file_renamed_into_place_is_seen(home: Path) -> None:
    async with watching(home) as watched:
        watched.rename_over("a.yaml", text("a"))
        await watched.until_names("a")
        watched.rename_over("a.yaml", text("a2"))
        await watched.until_names("a2")


async def test_a_change_that_looks_the_same_from_outside_is_seen(home: Path) -> None:
    async with watching(home) as watched:
        watched.write("a.yaml", text("one"))
        await watched.until_names("one")
        times = (home / "a.yaml").stat()
        watched.write("a.yaml", text("two"))
        os.utime(home / "a.yaml", ns=(times.st_atime_ns, times.st_mtime_ns))
        await watched.until_names("two")


async def test_a_manifest_that_was_renamed_never_leaves_the_desired_set(home: Path) -> None:
    (home / "a.yaml").write_text(text("web"))
    async with watching(home) as watched:
        (home / "a.yaml").rename(home / "b.yaml")
        await watched.until(lambda: watched.now.pods["default/web"].file == "b.yaml")
        await watched.settle()
        assert all("default/web" in told.pods for told in watched.told)
        assert not any(told.errors for told in watched.told)


async def test_nothing_is_told_twice(home: Path) -> None:
    async with watching(home) as watched:
        watched.write("a.yaml", text("a"))
        await watched.until_names("a")
        watched.write("a.yaml", text("a"))
        (home / "a.yaml").touch()
        await watched.settle()
        assert all(one != other for one, other in zip(watched.told, watched.told[1:], strict=False))


async def test_a_file_that_became_invalid_leaves_its_pod_alone_and_is_told_once(home: Path) -> None:  # IN-4
    with capture_logs() as logs:
        async with watching(home) as watched:
            watched.write("a.yaml", text("a"))
            await watched.until_names("a")
            before = watched.now.pods
            watched.write("a.yaml", text("a") + "nonsense: true\n")
            await watched.until_broken("a.yaml")
            assert watched.now.pods == before
            (home / "a.yaml").touch()
            await watched.settle()
            watched.write("a.yaml", text("a"))
            await watched.until_broken()
            assert watched.now.pods == before
    assert [log["error"] for log in logs if log["event"] == "manifest not used"] == [
        "a.yaml:5: nonsense: Unknown field"
    ]
    assert sum(log["event"] == "manifest mended" for log in logs) == 1


async def test_the_second_definition_of_a_pod_is_refused_until_the_first_goes(home: Path) -> None:
    async with watching(home) as watched:
        watched.write("b.yaml", text("web"))
        await watched.until_names("web")
        watched.write("a.yaml", text("web"))
        await watched.until_broken("a.yaml")
        assert watched.now.pods["default/web"].file == "b.yaml"
        (home / "b.yaml").unlink()
        await watched.until(lambda: watched.now.pods["default/web"].file == "a.yaml")
        assert not watched.now.errors
        await watched.settle()
        assert all("default/web" in told.pods for told in watched.told[2:])


async def test_of_many_new_files_the_first_are_told_before_the_last_are_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "_BUDGET", 0.0)
    async with watching(home) as watched:
        staging = home.parent / "staging"
        staging.mkdir()
        for number in range(20):
            (staging / f"{number}.yaml").write_text(text(f"p{number}"))
        for file in staging.iterdir():
            file.rename(home / file.name)
        await watched.until_names(*(f"p{number}" for number in range(20)))
        counts = [len(told.objects) for told in watched.told]
        assert counts == sorted(counts)
        assert len(counts) > 10


async def test_the_first_read_is_complete_however_long_it_takes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "_BUDGET", 0.0)
    for number in range(20):
        (home / f"{number}.yaml").write_text(text(f"p{number}"))
    async with watching(home) as watched:
        assert len(watched.told[0].objects) == 20


# Half a file must not take effect.


async def test_a_file_open_for_writing_does_not_count_until_it_is_closed(home: Path) -> None:
    async with watching(home) as watched:
        with (home / "a.yaml").open("w") as file:
            file.write(text("half"))  # valid as far as it goes
            file.flush()
            await watched.settle()
            assert watched.names == set()
            assert watched.now.being_written == {"a.yaml"}
            file.write("---\n" + text("rest"))
        await watched.until_names("half", "rest")
        assert all(told.names_of() in (set(), {"half", "rest"}) for told in map(Seen, watched.told))
        assert not watched.now.being_written


async def test_a_file_rewritten_in_place_stays_as_it_was_until_it_is_closed(home: Path) -> None:
    (home / "a.yaml").write_text(text("old"))
    async with watching(home) as watched:
        with (home / "a.yaml").open("w") as file:
            file.write("apiVersion")
            file.flush()
            await watched.settle()
            assert watched.names == {"old"}
            assert not watched.now.errors
            file.seek(0)
            file.write(text("new"))
        await watched.until_names("new")
        assert not any("a.yaml" in told.errors for told in watched.told)


async def test_a_file_open_for_writing_at_the_start_waits_and_keeps_what_ran(home: Path) -> None:
    with (home / "a.yaml").open("w") as file:
        file.write(text("new"))
        file.flush()
        async with watching(home, remembered=[stored("old", "a.yaml")]) as watched:
            assert watched.names == {"old"}
            assert watched.now.being_written == {"a.yaml"}
            file.close()
            await watched.until_names("new")


async def test_a_writer_that_the_kernel_counts_a_moment_too_long_is_no_reason_to_wait_for_another_event(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLOSE_WRITE is announced before the kernel stops counting the writer."""
    real, refusals = reading.take_lease, iter(range(4))

    def late(descriptor: int) -> bool:
        if next(refusals, None) is not None:
            raise reading.BeingWrittenError
        return real(descriptor)

    async with watching(home) as watched:
        monkeypatch.setattr(reading, "take_lease", late)
        watched.rename_over("a.yaml", text("a"))
        await watched.until_names("a")


async def test_a_writer_waits_while_a_file_is_read_and_is_not_hurt(home: Path) -> None:
    """The lease: reading and writing exclude each other."""
    path = home / "a.yaml"
    await asyncio.to_thread(path.write_text, text("a"))
    descriptor = os.open(path, os.O_RDONLY)
    opened = threading.Event()

    def write() -> None:
        with path.open("a"):
            opened.set()

    try:
        assert reading.take_lease(descriptor)
        writer = threading.Thread(target=write)
        writer.start()
        assert not await asyncio.to_thread(opened.wait, 0.1)
    finally:
        os.close(descriptor)
    assert await asyncio.to_thread(opened.wait, PATIENCE)
    await asyncio.to_thread(writer.join)


async def test_many_writers_at_once_never_show_half_a_file(home: Path) -> None:
    """Each version of a file has two pods of the same number; a mix of versions or a lone pod would be half a file."""

    def churn(file: str) -> None:
        for version in range(30):
            content = text(f"{file}-x-{version}") + "---\n" + text(f"{file}-y-{version}")
            with (home / f"{file}.yaml").open("w") as out:
                for start in range(0, len(content), 20):
                    out.write(content[start : start + 20])
                    out.flush()

    async with watching(home) as watched:
        await asyncio.gather(*(asyncio.to_thread(churn, file) for file in ("a", "b")))
        await watched.until_names("a-x-29", "a-y-29", "b-x-29", "b-y-29")
        for told in map(Seen, watched.told):
            assert not told.desired.errors
            for file in ("a", "b"):
                versions = {name.rpartition("-")[2] for name in told.names_of() if name.startswith(file)}
                assert len(versions) <= 1
                assert sum(name.startswith(file) for name in told.names_of()) in (0, 2)


class Seen:
    def __init__(self, desired: Desired) -> None:
        self.desired = desired

    def names_of(self) -> set[str]:
        return {key.partition("/")[2] for key in self.desired.pods} - {"marker"}


@pytest.fixture
def no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system."""
    monkeypatch.setattr(reading, "take_lease", lambda _: False)


async def test_without_leases_events_say_when_a_file_is_whole(home: Path, no_leases: None) -> None:
    async with watching(home) as watched:
        watched.write("a.yaml", text("a"))
        await watched.until_names("a")
        with (home / "a.yaml").open("w") as file:
            file.write("apiVersion")
            file.flush()
            await watched.settle()
            assert watched.names == {"a"}
            assert not watched.now.errors
            file.seek(0)
            file.write(text("b"))
        await watched.until_names("b")
        watched.rename_over("a.yaml", text("c"))
        await watched.until_names("c")


async def test_without_leases_and_events_a_file_must_have_been_quiet(
    home: Path, no_leases: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SETTLED", 0.1)
    (home / "a.yaml").write_text(text("a"))
    async with watching(home) as watched:
        assert watched.names == set()
        assert watched.now.being_written == {"a.yaml"}
        await watched.until_names("a")


# Editors.


async def test_an_editor_that_moves_the_old_file_away_does_not_remove_the_pod(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vim and emacs: a.yaml becomes a.yaml~, then a.yaml is written anew."""
    monkeypatch.setattr(folder_watch, "REMOVAL_HOLD", 2.0)
    (home / "a.yaml").write_text(text("a"))
    async with watching(home) as watched:
        (home / "4913").touch()
        (home / "4913").unlink()
        (home / ".a.yaml.swp").write_text("b0VIM 8.2")
        (home / "a.yaml").rename(home / "a.yaml~")
        watched.write("b.yaml", text("b"))
        await watched.until_names("a", "b")  # the folder was looked at meanwhile
        watched.write("a.yaml", text("a"))
        (home / "a.yaml~").unlink()
        (home / ".a.yaml.swp").unlink()
        await watched.settle()
        assert all("default/a" in told.pods for told in watched.told)


async def test_a_file_moved_away_for_good_is_removed(home: Path) -> None:
    (home / "a.yaml").write_text(text("a"))
    async with watching(home) as watched:
        (home / "a.yaml").rename(home / "a.yaml.off")
        await watched.until_names()
        (home / "a.yaml.off").rename(home / "a.yaml")
        await watched.until_names("a")


# Symbolic links.


async def test_a_swap_of_the_data_link_is_seen_as_with_mounted_config_maps(home: Path) -> None:
    (home / "..v1").mkdir()
    (home / "..v1" / "a.yaml").write_text(text("one"))
    (home / "..data").symlink_to("..v1")
    (home / "a.yaml").symlink_to("..data/a.yaml")
    async with watching(home) as watched:
        assert watched.names == {"one"}
        (home / "..v2").mkdir()
        (home / "..v2" / "a.yaml").write_text(text("two"))
        (home / "..tmp").symlink_to("..v2")
        (home / "..tmp").rename(home / "..data")
        await watched.until_names("two")
        assert all(told.pods for told in watched.told)


async def test_a_linked_file_is_followed_through_writes_and_renames_of_its_target(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "pod.txt"
    target.parent.mkdir()
    target.write_text(text("one"))
    async with watching(home) as watched:
        (home / "a.yaml").symlink_to(target)
        await watched.until_names("one")
        target.write_text(text("two"))
        await watched.until_names("two")
        (tmp_path / "elsewhere" / "new").write_text(text("three"))
        (tmp_path / "elsewhere" / "new").rename(target)
        await watched.until_names("three")
        with target.open("w") as file:
            file.write("apiVersion")
            file.flush()
            await watched.settle()
            assert watched.names == {"three"}
            file.write(": v1\n" + text("four").partition("\n")[2])
        await watched.until_names("four")


async def test_a_link_that_leads_nowhere_is_an_error_and_mends_itself(home: Path, tmp_path: Path) -> None:
    async with watching(home) as watched:
        (home / "a.yaml").symlink_to(tmp_path / "later" / "a.yaml")
        await watched.until_broken("a.yaml")
        assert "is a symbolic link to" in str(watched.now.errors["a.yaml"][0])
        (tmp_path / "later").mkdir()
        (tmp_path / "later" / "a.yaml").write_text(text("a"))
        await watched.until_names("a")
        (tmp_path / "later" / "a.yaml").unlink()
        await watched.until_broken("a.yaml")
        assert watched.names == {"a"}


async def test_a_linked_folder_is_followed_when_the_link_is_swapped(tmp_path: Path) -> None:
    for release in ("r1", "r2"):
        (tmp_path / "releases" / release).mkdir(parents=True)
        (tmp_path / "releases" / release / "a.yaml").write_text(text(release))
    (tmp_path / "current").symlink_to("releases/r1")
    (tmp_path / "manifests").symlink_to(tmp_path / "current")
    async with watching(tmp_path / "manifests") as watched:
        assert watched.names == {"r1"}
        (tmp_path / "tmp").symlink_to("releases/r2")
        (tmp_path / "tmp").rename(tmp_path / "current")
        await watched.until_names("r2")
        (tmp_path / "releases" / "r2" / "b.yaml").write_text(text("more"))
        await watched.until_names("r2", "more")


async def test_links_in_a_circle_are_an_error_of_that_file_only(home: Path) -> None:
    (home / "a.yaml").symlink_to("b.yaml")
    (home / "b.yaml").symlink_to("a.yaml")
    (home / "c.yaml").write_text(text("c"))
    async with watching(home) as watched:
        assert watched.names == {"c"}
        assert set(watched.now.errors) == {"a.yaml", "b.yaml"}


# The folder itself.


async def test_a_folder_that_is_missing_at_the_start_is_an_error_until_it_is_made(tmp_path: Path) -> None:
    home = tmp_path / "etc" / "minikubelet" / "manifests"
    async with watching(home, remembered=[stored("old", "a.yaml")]) as watched:
        assert watched.names == {"old"}
        assert "is not there" in str(watched.now.errors[str(home)][0])
        home.parent.mkdir(parents=True)
        home.mkdir()
        (home / "b.yaml").write_text(text("b"))
        await watched.until_names("b")
        assert not watched.now.errors


async def test_a_file_in_the_folders_place_is_an_error(tmp_path: Path) -> None:
    home = tmp_path / "manifests"
    home.write_text("")
    async with watching(home) as watched:
        assert "is not a folder" in str(watched.now.errors[str(home)][0])
        home.unlink()
        home.mkdir()
        (home / "a.yaml").write_text(text("a"))
        await watched.until_names("a")


async def test_a_folder_that_was_deleted_with_its_files_and_made_again(home: Path) -> None:
    (home / "a.yaml").write_text(text("a"))
    async with watching(home) as watched:
        shutil.rmtree(home)
        await watched.until_names()
        await watched.until_broken(str(home))
        home.mkdir()
        (home / "b.yaml").write_text(text("b"))
        await watched.until_names("b")
        assert not watched.now.errors


async def test_a_folder_that_was_moved_away_as_a_whole_leaves_its_pods_alone(home: Path) -> None:
    """As when what it was mounted from is unmounted: nobody removed those files."""
    (home / "a.yaml").write_text(text("a"))
    async with watching(home) as watched:
        home.rename(home.parent / "away")
        await watched.until_broken(str(home))
        assert watched.names == {"a"}
        (home.parent / "away" / "b.yaml").write_text(text("b"))  # not our folder any more
        (home.parent / "away").rename(home)
        await watched.until_names("a", "b")


async def test_a_parent_that_was_swapped_is_seen(tmp_path: Path) -> None:
    for version in ("new", "old"):
        (tmp_path / version / "manifests").mkdir(parents=True)
        (tmp_path / version / "manifests" / "a.yaml").write_text(text(version))
    (tmp_path / "old").rename(tmp_path / "current")
    async with watching(tmp_path / "current" / "manifests") as watched:
        assert watched.names == {"old"}
        (tmp_path / "current").rename(tmp_path / "was")
        (tmp_path / "new").rename(tmp_path / "current")
        await watched.until_names("new")


# What cannot be read.


async def test_what_is_no_file_is_an_error_and_is_never_opened(home: Path) -> None:
    os.mkfifo(home / "pipe.yaml")
    async with watching(home) as watched:
        assert "is not a regular file" in str(watched.now.errors["pipe.yaml"][0])


async def test_a_file_that_is_too_large_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # IN-1
    monkeypatch.setattr(reading, "SIZE_LIMIT", 1000)
    async with watching(home) as watched:
        watched.write("a.yaml", text("a") + "#" * 1000)
        await watched.until_broken("a.yaml")
        watched.write("a.yaml", text("a"))
        await watched.until_names("a")


async def test_an_unreadable_file_keeps_its_pods_and_is_read_when_it_can_be(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions mean nothing to root, so the refusal is made here; chmod is the event."""
    (home / "a.yaml").write_text(text("a"))
    real = os.open

    def refuse(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).endswith("a.yaml") and not Path(path).stat().st_mode & 0o400:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    async with watching(home) as watched:
        (home / "a.yaml").chmod(0)
        await watched.until_broken("a.yaml")
        assert str(watched.now.errors["a.yaml"][0]) == "a.yaml: cannot be read: Permission denied"
        assert watched.names == {"a"}
        (home / "a.yaml").chmod(0o600)
        await watched.until_broken()


async def test_a_name_that_is_not_utf8_is_read_and_shown(home: Path) -> None:
    async with watching(home) as watched:
        (home / os.fsdecode(b"caf\xe9.yaml")).write_text("kind: [")
        await watched.until(lambda: bool(watched.now.errors))
        assert list(watched.now.errors) == ["caf\\xe9.yaml"]
        assert watched.now.errors["caf\\xe9.yaml"][0].file == "caf\\xe9.yaml"


# Nets.


async def test_without_inotify_the_folder_is_looked_at_now_and_then(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Inotify:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(folder_watch, "Inotify", refuse)
    with capture_logs() as logs:
        async with watching(home, check_frequency=0.05) as watched:
            watched.write("a.yaml", text("a"))
            await watched.until_names("a")
    assert [log["remedy"] for log in logs if "remedy" in log] == ["raise the sysctl fs.inotify.max_user_instances"]


async def test_a_look_without_an_event_finds_what_no_event_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch.FolderWatch, "_note", lambda *_: False)
    async with watching(home, check_frequency=0.05) as watched:
        watched.write("a.yaml", text("a"))
        await watched.until_names("a")
        (home / "a.yaml").unlink()
        await watched.until_names()


async def test_a_file_that_stays_open_for_writing_is_named_in_the_log_once(home: Path) -> None:
    with capture_logs() as logs, (home / "a.yaml").open("w"):
        async with watching(home, check_frequency=0.05):
            await asyncio.sleep(0.5)  # ten looks
    assert sum("waits until" in log["event"] for log in logs) == 1


async def test_a_lease_is_refused_while_a_writer_has_the_file_open(home: Path) -> None:
    path = home / "a"
    with path.open("w"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with pytest.raises(reading.BeingWrittenError):
                reading.take_lease(descriptor)
        finally:
            os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert reading.take_lease(descriptor)
        assert fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_RDLCK
    finally:
        os.close(descriptor)
