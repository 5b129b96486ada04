from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from minikubelet.store import database
from minikubelet.store.database import StoredPod, open_store
from minikubelet.store.schema import VERSION, SchemaTooNewError


def stored(uid: str, memory: bytes = b"{}") -> StoredPod:
    return StoredPod(uid, "web.yaml", b"{}", memory)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "minikubelet.db"


async def test_pods_come_back_as_they_were_last_saved(path: Path) -> None:
    async with open_store(path) as store:
        store.save_pod(stored("a", b"1"))
        store.save_pod(stored("b"))
        store.save_pod(stored("a", b"2"))
    async with open_store(path) as store:
        assert sorted(await store.load_pods(), key=lambda p: p.uid) == [stored("a", b"2"), stored("b")]
        store.delete_pod("a")
    async with open_store(path) as store:
        assert await store.load_pods() == [stored("b")]


async def test_a_save_after_a_delete_wins_and_the_other_way_round(path: Path) -> None:
    async with open_store(path) as store:
        store.save_pod(stored("a"))
        await store.flush()
        store.delete_pod("a")
        store.save_pod(stored("a", b"new"))
        store.save_pod(stored("b"))
        store.delete_pod("b")
        await store.flush()
        assert await store.load_pods() == [stored("a", b"new")]


async def test_writes_reach_the_file_without_a_clean_end(path: Path) -> None:
    async with open_store(path) as store:
        store.save_pod(stored("a"))
        await store.flush()
        other = sqlite3.connect(path)  # what a process sees that comes after a kill -9
        assert other.execute("SELECT uid FROM pods").fetchall() == [("a",)]
        other.close()


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    async with open_store(path) as store:
        store.save_pod(stored("a"))
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    with pytest.raises(SchemaTooNewError, match="written by a newer minikubelet"):
        async with open_store(path):
            pass
    with sqlite3.connect(path) as untouched:
        assert untouched.execute("SELECT uid FROM pods").fetchall() == [("a",)]
    untouched.close()


@pytest.mark.parametrize(
    "damage", [b"this is no database at all, but long enough to look at" * 40, b"SQLite format 3\0" + b"\xff" * 4096]
)
async def test_a_damaged_database_is_set_aside_and_a_new_one_begun(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    async with open_store(path) as store:
        assert await store.load_pods() == []
        store.save_pod(stored("a"))
    aside = list(path.parent.glob("*.damaged-*"))
    assert [file.read_bytes() for file in aside if not file.name.endswith(("-wal", "-shm"))] == [damage]


async def test_only_the_owner_may_read_it(path: Path) -> None:
    async with open_store(path):
        assert path.stat().st_mode & 0o777 == 0o600


async def test_a_disk_that_fails_loses_nothing_that_is_queued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(path) as store:
        working = store._write

        def full(queue: dict[str, StoredPod | None]) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(store, "_write", full)
        store.save_pod(stored("a"))
        await store.flush()
        monkeypatch.setattr(store, "_write", working)
        store.save_pod(stored("b"))
        await store.flush()
        assert {p.uid for p in await store.load_pods()} == {"a", "b"}


async def test_what_a_failing_disk_refused_is_written_without_another_change(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = asyncio.Event()
    async with open_store(path) as store:
        working, loop = store._write, asyncio.get_running_loop()

        def once_full(queue: dict[str, StoredPod | None]) -> None:
            monkeypatch.setattr(store, "_write", then)
            raise sqlite3.OperationalError("database or disk is full")

        def then(queue: dict[str, StoredPod | None]) -> None:
            working(queue)
            loop.call_soon_threadsafe(written.set)

        monkeypatch.setattr(database, "_RETRY", 0.01)
        monkeypatch.setattr(store, "_write", once_full)
        store.save_pod(stored("a"))
        async with asyncio.timeout(30):
            await written.wait()
        assert [p.uid for p in await store.load_pods()] == ["a"]


async def test_what_is_settled_is_in_the_file_also_what_was_just_being_written(path: Path) -> None:
    async with open_store(path) as store:
        other = sqlite3.connect(path)  # what a process sees that comes after a kill -9
        for number in range(50):
            store.save_pod(stored(str(number)))
            await asyncio.sleep(0)  # the writer may take it up
            assert await store.settled()
            assert other.execute("SELECT count(*) FROM pods").fetchone() == (number + 1,)
        other.close()


async def test_nothing_is_settled_on_a_disk_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(path) as store:

        def full(queue: dict[str, StoredPod | None]) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(store, "_write", full)
            store.save_pod(stored("a"))
            assert not await store.settled()
            await asyncio.sleep(0)
            assert not await store.settled()
        assert await store.settled()
        assert await store.load_pods() == [stored("a")]
