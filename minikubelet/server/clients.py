"""Whether the client of a request is still there: for what takes long and is of no use without it.

aiohttp tells a handler of that only when it writes. `image_operations` is the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from aiohttp import web

T = TypeVar("T")


class ClientGoneError(Exception):
    """Nobody waits for the answer any more."""


async def while_asked(request: web.Request, work: Coroutine[Any, Any, T]) -> T:
    """Carry `work` out; it is cancelled when the client goes.

    Raises ClientGoneError, then and only then; and what `work` raises.
    """
    task = asyncio.get_running_loop().create_task(work)
    with _hung_up(request, then=task.cancel):
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if not task.cancelling():  # a second time would keep it from cleaning up
                task.cancel()
            await asyncio.wait({task})
            raise
    if task.cancelled():
        raise ClientGoneError
    return task.result()


@contextlib.contextmanager
def _hung_up(request: web.Request, *, then: Callable[[], object]) -> Iterator[None]:
    """Call `then` when the connection ends.

    The connection's own descriptor is the transport's; a duplicate may be watched beside it.
    """
    theirs = request.transport.get_extra_info("socket") if request.transport is not None else None
    if theirs is None or theirs.fileno() < 0:
        then()
        yield
        return
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=socket.dup(theirs.fileno())) as watched:

        def look() -> None:
            try:
                if watched.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    loop.remove_reader(watched)  # it asks for more already, so it is there
                    return
            except BlockingIOError:  # what came was taken by the transport
                return
            except OSError:
                pass
            loop.remove_reader(watched)
            then()

        loop.add_reader(watched, look)
        try:
            yield
        finally:
            loop.remove_reader(watched)
