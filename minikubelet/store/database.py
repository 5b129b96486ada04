"""What must survive the daemon and can be kept neither in the folder nor on the containers (design: state).

One thread owns the SQLite connection, so nothing here ever blocks the event loop. Writes of pods are queued and
coalesced: only the newest state of a pod is written, many pods in one transaction. The journal is a WAL with
synchronous=NORMAL: a killed daemon loses nothing that was written; a power cut may lose the last moments, which the
containers' own records make up for.

`pods/manager.py` writes and reads pods. The store sees them as opaque JSON.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from minikubelet.store.durable import DurableTransactions
from minikubelet.store.schema import migrate

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: Seconds until what a failing disk has refused is written again, if nothing else is to be written before.
_RETRY = 5.0


class StoredPod(msgspec.Struct, frozen=True):
    uid: str
    file: str
    pod: bytes
    memory: bytes


class Store:
    """Use `open_store`. All methods are for the event loop's thread."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor, *, path: Path) -> None:
        self._connection = connection
        self._thread = thread
        self._path = path
        self._queue: dict[str, StoredPod | None] = {}  # by uid; None: delete
        self._wake = asyncio.Event()
        self._fails = False  # the last write did
        #: For what must survive a power cut.
        self.durably = DurableTransactions(connection, thread)

    async def load_pods(self) -> list[StoredPod]:
        def read() -> list[StoredPod]:
            rows = self._connection.execute("SELECT uid, file, pod, memory FROM pods")
            return [StoredPod(*row) for row in rows]

        return await self._call(read)

    def save_pod(self, pod: StoredPod) -> None:
        """Queue the newest state of a pod. It is written within moments."""
        self._queue[pod.uid] = pod
        self._wake.set()

    def delete_pod(self, uid: str) -> None:
        self._queue[uid] = None
        self._wake.set()

    async def flush(self) -> bool:
        """Write what is queued. False: the disk failed, everything is queued still."""
        queue, self._queue = self._queue, {}
        if not queue:
            return True
        try:
            await self._call(lambda: self._write(queue))
        except sqlite3.Error as error:
            self._queue = {**queue, **self._queue}
            self._fails = True
            log.warning(
                "state could not be written; pods go on, a restart may lose their latest state",
                file=str(self._path),
                error=str(error),
            )
            return False
        self._fails = False
        return True

    async def settled(self) -> bool:
        """Until what was queued before is written. False: the disk failed, it will be tried again."""
        await self.flush()
        await self._call(lambda: None)  # what the writer had taken up before
        return not self._fails

    async def write_forever(self) -> None:
        """Write as things change, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self.flush():
                await asyncio.sleep(_RETRY)
                self._wake.set()

    def _write(self, queue: dict[str, StoredPod | None]) -> None:
        with self._connection:
            self._connection.executemany(
                "INSERT INTO pods (uid, file, pod, memory) VALUES (?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE"
                " SET file = excluded.file, pod = excluded.pod, memory = excluded.memory",
                [(p.uid, p.file, p.pod, p.memory) for p in queue.values() if p is not None],
            )
            self._connection.executemany(
                "DELETE FROM pods WHERE uid = ?", [(uid,) for uid, p in queue.items() if p is None]
            )

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level="IMMEDIATE")
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _check(connection)
        migrate(connection, path=str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    try:
        connection = _connect(path)
    except sqlite3.OperationalError:
        raise  # locked, full, not permitted: nothing that a fresh file would mend
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        for suffix in ("", "-wal", "-shm"):
            damaged = path.with_name(path.name + suffix)
            if damaged.exists():
                damaged.rename(aside.with_name(aside.name + suffix))
        log.warning(
            "THE STATE DATABASE IS DAMAGED: it was set aside and a new one begun; running pods are taken up from what"
            " their containers carry, but back-off and past states are lost",
            damaged=str(aside),
            error=str(error),
        )
        connection = _connect(path)
    path.chmod(0o600)
    return connection


@asynccontextmanager
async def open_store(path: Path) -> AsyncIterator[Store]:
    """Open (or make) the database at `path`; on leaving, everything queued is written.

    Raises SchemaTooNewError, and sqlite3.OperationalError where the file can't be used. A damaged file is set aside.
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
    loop = asyncio.get_running_loop()
    try:
        connection = await loop.run_in_executor(thread, _open, path)
        store = Store(connection, thread, path=path)
        try:
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(store.write_forever(), name="store writer")
                try:
                    yield store
                finally:
                    writer.cancel()
        finally:
            await store.flush()
            await loop.run_in_executor(thread, connection.close)
    finally:
        thread.shutdown(wait=False)
