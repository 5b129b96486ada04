"""Follows a log file until the container that writes it has ended. For `minikubelet logs -f`.

inotify tells when there is something to read; that the container has ended is for the daemon to say, which is asked
from a thread, since it answers when it is so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import click
from asyncinotify import Inotify, Mask

from minikubelet.cli.errors import UnreachedError

#: Seconds that the daemon may hold back an answer; the client's own patience is longer.
_ONE_REQUEST = 5.0
_CHANGES = Mask.MODIFY | Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE


def follow(folder: int, log: str, *, show: Callable[[], None], ended: Callable[[float], bool]) -> None:
    """Call `show` whenever there may be more to read in the file `log` of the folder with this descriptor.

    `ended`: whether the container has ended, answered within these seconds; it may raise UnreachedError. While the
    daemon is away the container counts as ended when nobody writes the file any more.
    """
    asyncio.run(_follow(folder, log, show, ended))


async def _follow(folder: int, log: str, show: Callable[[], None], ended: Callable[[float], bool]) -> None:
    wake, closed, over = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    with _inotify() as inotify:
        inotify.add_watch(Path(f"/proc/self/fd/{folder}"), _CHANGES)

        async def listen() -> None:
            async for event in inotify:
                if event.mask & Mask.CLOSE_WRITE and event.name is not None and str(event.name) == log:
                    closed.set()
                wake.set()

        def ask() -> None:
            _until_ended(ended, closed)
            loop.call_soon_threadsafe(over.set)
            loop.call_soon_threadsafe(wake.set)

        listening = asyncio.create_task(listen(), name="changes of the log")
        listening.add_done_callback(lambda _: wake.set())
        threading.Thread(target=ask, name="until the container has ended", daemon=True).start()
        try:
            while True:  # not in a task group: what `show` raises is for the caller, as it is
                wake.clear()
                last = over.is_set()
                show()
                if last:
                    return
                if listening.done():
                    listening.result()
                await wake.wait()
        finally:
            listening.cancel()


def _inotify() -> Inotify:
    try:
        return Inotify()
    except OSError as error:
        raise click.ClickException(
            f"the log cannot be followed: {error.strerror}; raise the sysctl fs.inotify.max_user_instances"
        ) from error


def _until_ended(ended: Callable[[float], bool], closed: threading.Event) -> None:
    while True:
        closed.clear()
        try:
            if ended(_ONE_REQUEST):
                return
        except UnreachedError:
            closed.wait()
            try:
                if ended(0):
                    return
            except UnreachedError:
                return
