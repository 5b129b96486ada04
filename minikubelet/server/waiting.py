"""Requests that wait until something is so, so that a client need not ask again and again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from aiohttp import web

#: Calls back at each change; returns what ends that.
Subscribe = Callable[[Callable[[], None]], Callable[[], None]]
#: Seconds that one request may wait.
_LONGEST = 60.0


async def until(settled: Callable[[], bool], subscribe: Subscribe, *, seconds: float) -> None:
    """Return when it is settled, and when the seconds are over at the latest."""
    changed = asyncio.Event()
    unsubscribe = subscribe(changed.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not settled():
                    changed.clear()
                    await changed.wait()
    finally:
        unsubscribe()


def seconds_of(request: web.Request) -> float:
    """The query's `seconds`; none are 0. Raises web.HTTPBadRequest."""
    try:
        return min(max(float(request.query.get("seconds", "0")), 0.0), _LONGEST)
    except ValueError:
        raise web.HTTPBadRequest(text="seconds must be a number") from None
