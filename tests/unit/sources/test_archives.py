"""The folder of image archives with the real file system, and a runtime that notes what it is given."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from minikubelet.runtime.archive import ArchiveError, NamedImage
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.images import Record
from minikubelet.sources import archives as archives_module
from minikubelet.sources.archive_files import is_archive
from minikubelet.sources.archives import ImageArchives
from minikubelet.sources.listing import shown

#: Longer than any event takes to arrive, also on a busy machine.
PATIENCE = 15.0


class Runtime:
    """An archive's text is the images that it holds, `NAME=DIGEST` each; `broken` is none."""

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        self.imports: list[str] = []
        #: Imports that were cancelled.
        self.given_up: list[str] = []
        self.refusals: list[Exception] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.lost_times = 0

    async def import_archive(self, path: Path) -> list[NamedImage]:
        self.imports.append(path.name)
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.given_up.append(path.name)
            raise
        if self.refusals:
            raise self.refusals.pop(0)
        text = path.read_text()
        if text == "broken":
            raise ArchiveError(f"{shown(str(path))}: is broken")
        held = dict(part.split("=") for part in text.split())
        self.images.update(held)
        return [NamedImage(name=name, media_type="m", digest=digest, size=1) for name, digest in held.items()]

    async def records(self) -> dict[str, Record]:
        return {name: Record(digest=digest, brought=True) for name, digest in self.images.items()}

    async def connected(self) -> None:
        return

    async def lost(self) -> None:
        self.lost_times += 1


class Watched:
    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self.folder, self.runtime = folder, runtime
        self.arrived: list[str] = []
        self.archives = ImageArchives(
            folder,
            runtime,
            notes=folder.parent / "notes.json",
            connected=runtime.connected,
            lost=runtime.lost,
            arrived=self.arrive,
            check_frequency=0.2,
        )

    def arrive(self, names: Collection[str]) -> None:
        self.arrived += names

    def put(self, name: str, text: str) -> None:
        staged = self.folder.parent / "staged"
        staged.write_text(text)
        staged.rename(self.folder / name)

    async def until(self, test: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not test():  # noqa: ASYNC110  it tells nobody of all this
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def watching(folder: Path, runtime: Runtime) -> AsyncIterator[Watched]:
    watched = Watched(folder, runtime)
    task = asyncio.create_task(watched.archives.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await watched.archives.idle()
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


X, Y = "docker.io/library/x:1", "docker.io/library/y:1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.tar", True),
        ("a.tar.gz", True),
        ("a.tgz", True),
        ("a.tar.zst", True),
        ("a.tzst", True),
        (".a.tar", False),
        ("a.tar.part", False),
        ("README", False),
        ("a.tar.xz", True),  # to be told that it cannot be used
    ],
)
def test_what_counts_as_an_archive(name: str, expected: bool) -> None:
    assert is_archive(name) is expected


async def test_what_is_there_and_what_comes_and_changes_is_imported(home: Path, runtime: Runtime) -> None:
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        assert watched.arrived == [X]
        watched.put("b.tar.zst", f"{Y}=1")
        await watched.until(lambda: watched.arrived == [X, Y])
        assert watched.archives.names() == {X, Y}
        watched.put("a.tar", f"{X}=2")
        await watched.until(lambda: runtime.images[X] == "2")
        (home / "b.tar.zst").unlink()
        await watched.until(lambda: watched.archives.names() == {X})
        assert runtime.images == {X: "2", Y: "1"}  # clean-up is another's


async def test_a_folder_that_is_missing_is_fine_and_may_come_later(home: Path, runtime: Runtime) -> None:
    home.rmdir()
    async with watching(home, runtime) as watched:
        assert watched.archives.status().errors == {}
        home.mkdir()
        watched.put("a.tar", f"{X}=1")
        await watched.until(lambda: watched.arrived == [X])


async def test_a_folder_that_is_none_is_told(home: Path, runtime: Runtime) -> None:
    home.rmdir()
    home.write_text("")
    async with watching(home, runtime) as watched:
        assert watched.archives.status().errors == {str(home): "is not a folder; set imageArchivesPath to one"}


async def test_what_looks_like_an_archive_and_is_none_is_told(home: Path, runtime: Runtime) -> None:
    (home / "layout.tar").mkdir()
    (home / "a.tar.xz").write_text(f"{X}=1")
    with capture_logs() as logs:
        async with watching(home, runtime) as watched:
            assert watched.archives.status().errors == {
                "a.tar.xz": "is packed in a way that is not known; make it a .tar, .tar.gz or .tar.zst",
                "layout.tar": "is a folder; pack what is in it as a .tar",
            }
            (home / "layout.tar").rmdir()
            (home / "a.tar.xz").unlink()
            await watched.until(lambda: watched.archives.status().errors == {})
    assert sum(log["log_level"] == "error" for log in logs) == 2


async def test_an_unforeseen_error_is_one_archives_own(home: Path, runtime: Runtime) -> None:
    runtime.refusals = [RuntimeError("unforeseen")]
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        assert watched.archives.status().errors == {"a.tar": "an internal error; the daemon's log has the details"}
        watched.put("b.tar", f"{Y}=1")
        await watched.until(lambda: watched.arrived == [Y])


async def test_a_file_that_is_open_for_writing_waits(home: Path, runtime: Runtime) -> None:
    async with watching(home, runtime) as watched:
        with (home / "a.tar").open("w") as file:
            file.write(f"{X}=")
            file.flush()
            await watched.until(lambda: watched.archives.status().being_written == {"a.tar"})
            assert runtime.imports == []
            file.write("1")
        await watched.until(lambda: watched.arrived == [X])
        assert watched.archives.status().being_written == frozenset()


async def test_a_broken_archive_is_told_until_it_is_mended_or_gone_and_harms_no_other(
    home: Path, runtime: Runtime
) -> None:
    (home / "a.tar").write_text("broken")
    (home / "b.tar").write_text(f"{Y}=1")
    with capture_logs() as logs:
        async with watching(home, runtime) as watched:
            assert watched.archives.status().errors == {"a.tar": "is broken"}
            assert watched.arrived == [Y]
            watched.put("a.tar", f"{X}=1")
            await watched.until(lambda: watched.archives.status().errors == {})
            watched.put("a.tar", "broken")
            await watched.until(lambda: bool(watched.archives.status().errors))
            assert watched.archives.names() == {X, Y}  # what it held is kept
            (home / "a.tar").unlink()
            await watched.until(lambda: watched.archives.status().errors == {})
    told = [(log["event"], log["file"]) for log in logs if "a.tar" in str(log.get("file"))]
    assert [event for event, _ in told if "import" not in event] == [
        "image archive not used",
        "image archive mended",
        "image archive not used",
        "no more errors, the image archive is gone",
    ]


async def test_a_file_that_changes_while_it_is_read_is_no_error_but_read_again(home: Path, runtime: Runtime) -> None:
    async with watching(home, runtime) as watched:
        runtime.may_go_on.clear()
        runtime.refusals = [ArchiveError("half of it")]
        watched.put("a.tar", "broken")
        await watched.until(lambda: runtime.imports == ["a.tar"])
        with capture_logs() as logs:
            watched.put("a.tar", f"{X}=1")
            runtime.may_go_on.set()
            await watched.until(lambda: watched.arrived == [X])
    assert not [log for log in logs if log["log_level"] == "error"]


async def test_an_unchanged_archive_is_not_imported_again_at_the_next_start(home: Path, runtime: Runtime) -> None:
    (home / "a.tar").write_text(f"{X}=1 {Y}=1")
    async with watching(home, runtime):
        pass
    async with watching(home, runtime) as watched:
        assert watched.archives.names() == {X, Y}
    assert runtime.imports == ["a.tar"]
    del runtime.images[Y]
    async with watching(home, runtime):
        pass
    assert runtime.imports == ["a.tar", "a.tar"]
    (home / "a.tar").write_text(f"{X}=2")
    async with watching(home, runtime):
        pass
    assert runtime.images[X] == "2"


async def test_notes_that_cannot_be_read_do_no_harm(home: Path, runtime: Runtime) -> None:
    (home.parent / "notes.json").write_text('{"a.tar": 5}')
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        assert watched.arrived == [X]


async def test_the_archive_imported_last_holds_a_name_over_restarts_and_gives_it_back(
    home: Path, runtime: Runtime
) -> None:
    async with watching(home, runtime) as watched:
        watched.put("z.tar", f"{X}=old")
        await watched.until(lambda: runtime.images.get(X) == "old")
        watched.put("a.tar", f"{X}=new")
        await watched.until(lambda: runtime.images[X] == "new")
        await watched.archives.idle()
    async with watching(home, runtime) as watched:
        assert runtime.images[X] == "new"
        assert runtime.imports == ["z.tar", "a.tar"]
        (home / "a.tar").unlink()
        await watched.until(lambda: runtime.images[X] == "old")


@pytest.mark.parametrize("named", [False, True], ids=["nothing named yet", "a name given already"])
async def test_the_import_of_an_archive_that_goes_ends_and_holds_nothing(
    home: Path, runtime: Runtime, named: bool
) -> None:
    (home / "a.tar").write_text(f"{X}=old")
    async with watching(home, runtime) as watched:
        runtime.may_go_on.clear()
        watched.put("b.tar", f"{X}=new")
        await watched.until(lambda: runtime.imports == ["a.tar", "b.tar"])
        if named:
            runtime.images[X] = "new"
        (home / "b.tar").unlink()
        await watched.until(lambda: runtime.given_up == ["b.tar"])
        runtime.may_go_on.set()
        await watched.until(lambda: runtime.images == {X: "old"})
        await watched.archives.idle()
        assert runtime.imports[2:] == (["a.tar"] if named else [])


@pytest.mark.parametrize("failed_before", [False, True])
async def test_the_import_of_an_archive_that_is_replaced_ends_and_the_new_one_counts(
    home: Path, runtime: Runtime, failed_before: bool
) -> None:
    async with watching(home, runtime) as watched:
        if failed_before:
            watched.put("a.tar", "broken")
            await watched.until(lambda: bool(watched.archives.status().errors))
        runtime.may_go_on.clear()
        watched.put("a.tar", f"{X}=slow")
        await watched.until(lambda: runtime.imports[-1:] == ["a.tar"] and len(runtime.imports) == 1 + failed_before)
        watched.put("a.tar", f"{Y}=1")
        await watched.until(lambda: runtime.given_up == ["a.tar"])
        runtime.may_go_on.set()
        await watched.until(lambda: watched.arrived == [Y])
        await watched.archives.idle()
        assert runtime.images == {Y: "1"}
        assert watched.archives.status().errors == {}


async def test_touching_an_archive_that_failed_does_not_lose_the_import_that_goes_on(
    home: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives_module, "_RETRY_FIRST", 0.05)
    runtime.refusals = [ContainerRuntimeError("no space left")]
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        runtime.may_go_on.clear()
        await watched.until(lambda: runtime.imports == ["a.tar"] * 2)
        os.close(os.open(home / "a.tar", os.O_WRONLY))  # closed after writing, and yet the same
        await watched.until(lambda: runtime.given_up == ["a.tar"])
        runtime.may_go_on.set()
        await watched.until(lambda: watched.arrived == [X])


async def test_the_daemons_end_ends_an_import(home: Path, runtime: Runtime) -> None:
    async with watching(home, runtime) as watched:
        runtime.may_go_on.clear()
        watched.put("a.tar", f"{X}=1")
        await watched.until(lambda: runtime.imports == ["a.tar"])
    assert runtime.given_up == ["a.tar"]


async def test_nobody_waits_for_long_for_an_archive_that_takes_long(
    home: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives_module, "_PATIENCE", 0.05)
    async with watching(home, runtime) as watched:
        runtime.may_go_on.clear()
        watched.put("a.tar", f"{X}=1")
        await watched.until(lambda: runtime.imports == ["a.tar"])
        async with asyncio.timeout(PATIENCE):
            assert await watched.archives.bring("x:1") is False
            assert await watched.archives.bring("y:1") is False
        runtime.may_go_on.set()
        await watched.until(lambda: watched.arrived == [X])  # of which the news is


async def test_an_archive_may_have_any_name(home: Path, runtime: Runtime) -> None:
    strange = os.fsencode(home) + b"/a\xff.tar"
    async with watching(home, runtime) as watched:
        watched.put("good.tar", f"{X}=1")
        (home / "good.tar").rename(os.fsdecode(strange))
        await watched.until(lambda: set(watched.archives.status().images) == {"a\\xff.tar"})
        await watched.archives.idle()
        assert watched.archives.names() == {X}
        Path(os.fsdecode(strange)).write_text("broken")
        await watched.until(lambda: watched.archives.status().errors == {"a\\xff.tar": "is broken"})


async def test_a_folder_that_vanishes_is_told_and_what_it_held_stays_protected(home: Path, runtime: Runtime) -> None:
    (home / "a.tar").write_text(f"{X}=1")
    away = {str(home): "the folder of image archives is not there any more; the images from it are kept. "
            "Bring it back, or make it"}  # fmt: skip
    async with watching(home, runtime) as watched:
        home.rename(home.parent / "away")
        await watched.until(lambda: watched.archives.status().errors == away)
        assert watched.archives.names() == {X}
    async with watching(home, runtime) as watched:  # and over a restart
        assert watched.archives.status().errors == away
        assert watched.archives.names() == {X}
        (home.parent / "away").rename(home)
        await watched.until(lambda: watched.archives.status().errors == {})
        await watched.archives.idle()
        assert runtime.imports == ["a.tar"]


async def test_what_the_runtime_refuses_is_tried_again(
    home: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives_module, "_RETRY_FIRST", 0.05)
    runtime.refusals = [ContainerRuntimeError("no space left"), ContainerRuntimeError("no space left")]
    (home / "a.tar").write_text(f"{X}=1")
    with capture_logs() as logs:
        async with watching(home, runtime) as watched:
            assert watched.archives.status().errors == {
                "a.tar": "containerd refuses it: no space left; it is tried again"
            }
            await watched.until(lambda: watched.arrived == [X])
            await watched.until(lambda: watched.archives.status().errors == {})
    assert sum(log["log_level"] == "error" for log in logs) == 1


async def test_a_runtime_that_went_away_is_waited_for(home: Path, runtime: Runtime) -> None:
    runtime.refusals = [RuntimeUnavailableError("gone")]
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        assert watched.arrived == [X]
        assert watched.archives.status().errors == {}
    assert runtime.lost_times == 1


async def test_who_asks_for_an_image_waits_for_the_archives_that_may_hold_it(home: Path, runtime: Runtime) -> None:
    async with watching(home, runtime) as watched:
        assert await watched.archives.bring("x:1") is False
        runtime.may_go_on.clear()
        watched.put("a.tar", f"{X}=1")
        await watched.until(lambda: runtime.imports == ["a.tar"])
        asking = asyncio.create_task(watched.archives.bring("x:1"))
        elsewhere = asyncio.create_task(watched.archives.bring("y:1"))
        await asyncio.sleep(0)
        assert not asking.done()
        runtime.may_go_on.set()
        assert await asking is True
        assert await elsewhere is True
        assert await watched.archives.bring("not an IMAGE") is False


async def test_an_image_that_was_removed_behind_our_back_is_brought_again(home: Path, runtime: Runtime) -> None:
    (home / "a.tar").write_text(f"{X}=1")
    async with watching(home, runtime) as watched:
        del runtime.images[X]
        assert watched.archives.may_bring("x:1")
        assert not watched.archives.may_bring("y:1")
        assert not watched.archives.may_bring("")
        assert await watched.archives.bring("x:1") is True
        assert runtime.images == {X: "1"}


async def test_a_full_disk_that_takes_no_notes_is_told_and_harms_nothing(home: Path, runtime: Runtime) -> None:
    (home.parent / "notes.json").mkdir()
    (home / "a.tar").write_text(f"{X}=1")
    with capture_logs() as logs:
        async with watching(home, runtime) as watched:
            assert watched.arrived == [X]
    assert any("cannot be noted" in log["event"] for log in logs)
