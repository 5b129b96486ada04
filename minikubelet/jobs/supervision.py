"""How workers of Jobs and CronJobs survive what nobody foresaw, and a disk that refuses to write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

log = structlog.get_logger(__name__)
T = TypeVar("T")

#: Seconds between tries while the books cannot be written.
RETRY = 1.0
#: Seconds before a worker that failed is begun again, doubling.
_RESTART_FIRST, _RESTART_MAX = 1.0, 60.0


async def supervised(run: Callable[[], Awaitable[None]], *, again: Callable[[], Awaitable[None]], name: str) -> None:
    """Run a worker to its end. One that fails for an unforeseen reason is begun again, ever more rarely.

    `again` is awaited before each new beginning.
    """
    delay = _RESTART_FIRST
    while True:
        try:
            await run()
        except Exception:
            log.exception("a worker failed; it begins again", name=name, seconds=delay)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _RESTART_MAX)
            await until_written(again)
        else:
            return


async def until_written(write: Callable[[], Awaitable[T]]) -> T:
    """Try until the books can be written (or read)."""
    while True:
        try:
            return await write()
        except sqlite3.Error as error:
            log.warning("the Jobs' books cannot be written; tried again", error=str(error), seconds=RETRY)
            await asyncio.sleep(RETRY)
