"""Transactions that must survive a power cut, many of them with one write to the disk.

Jobs' books are the only memory of what was done, so their transactions are committed with synchronous=FULL (JOBS 12).
What is asked for while a commit is under way goes into the next one together: each piece of work stays atomic and
isolated by a savepoint, and whoever asked is answered only when the disk has it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

#: Work on the connection. It runs on the database's thread: it must not touch anything of the event loop.
Work = Callable[[sqlite3.Connection], T]


class _Asked(NamedTuple):
    work: Work[Any]
    answer: asyncio.Future[Any]


class _Failed(NamedTuple):
    error: BaseException


class DurableTransactions:
    """Call it with a piece of work. `thread` is the one that owns the connection."""

    def __init__(self, connection: sqlite3.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread
        self._asked: list[_Asked] = []
        self._busy = False

    async def __call__(self, work: Work[T]) -> T:
        """Run `work` in a transaction of its own and return its result once it is on the disk.

        An exception of `work` undoes it and is raised here. Raises sqlite3.Error if the disk refuses. A cancellation
        undoes nothing.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(work, answer))
        if not self._busy:
            self._commit_asked()
        return await answer

    def _commit_asked(self) -> None:
        asked, self._asked = self._asked, []
        self._busy = bool(asked)
        if asked:
            works = [each.work for each in asked]
            done = asyncio.get_running_loop().run_in_executor(self._thread, commit_all, self._connection, works)
            done.add_done_callback(lambda future: self._settle(asked, future))

    def _settle(self, asked: list[_Asked], done: asyncio.Future[list[Any]]) -> None:
        error = done.exception()
        results = done.result() if error is None else [_Failed(error)] * len(asked)
        for each, result in zip(asked, results, strict=True):
            if each.answer.cancelled():
                continue
            if isinstance(result, _Failed):
                each.answer.set_exception(result.error)
            else:
                each.answer.set_result(result)
        self._commit_asked()


def commit_all(connection: sqlite3.Connection, works: list[Work[Any]]) -> list[Any]:
    """Each work's result, or its failure; raises what keeps all of them from being committed."""
    connection.execute("PRAGMA synchronous = FULL")
    try:
        connection.execute("BEGIN IMMEDIATE")
        results = [_run(connection, work) for work in works]
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise
    finally:
        connection.execute("PRAGMA synchronous = NORMAL")
    return results


def _run(connection: sqlite3.Connection, work: Work[Any]) -> Any:
    connection.execute("SAVEPOINT work")
    try:
        result = work(connection)
    except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
        connection.execute("ROLLBACK TO work")
        result = _Failed(error)
    connection.execute("RELEASE work")
    return result
