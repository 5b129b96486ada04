"""How many sandboxes and containers are started at a time, all pods together, and who comes first.

More at a time than the cores can carry only makes each slower (CD 12). A pod that has begun goes before one that has
not: so pods come up one after the other instead of all at the end, and the runtime's locks see fewer calls of one kind
at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import heapq
import itertools
from collections.abc import AsyncIterator


class Turn(enum.IntEnum):
    """Who comes first: the smaller."""

    CONTAINER = 0
    SANDBOX = 1


class StartSlots:
    def __init__(self, count: int) -> None:
        self._free = count
        self._order = itertools.count()
        self._waiting: list[tuple[Turn, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def one(self, turn: Turn) -> AsyncIterator[None]:
        """Hold a slot, once it is free."""
        await self._acquire(turn)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, turn: Turn) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (turn, next(self._order), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # it was granted in the same moment
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, granted = heapq.heappop(self._waiting)
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1
