"""Two small tools for the tasks of a worker: calls that must not be cut short, and starts that can be abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from minikubelet.pods.slots import StartSlots, Turn

T = TypeVar("T")


async def uncut(call: Coroutine[Any, Any, T], *, name: str) -> T:
    """Await a call that would leave half-made things if it were cancelled (CD 5): a cancellation waits for its end.

    How the call ends is of no interest to anybody then.
    """
    task = asyncio.create_task(call, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # or asyncio complains that nobody asked
        raise


class Abandoned(Exception):  # noqa: N818 - a decision, not an error
    """The pod is being stopped, so what was under way is of no more use."""


class Handle:
    """A piece of work that a pod-wide stop abandons: at once where it may be cut, else at its next `check`."""

    def __init__(self, *, hindered: Callable[[str], None] = lambda _: None) -> None:
        """`hindered` is called with what keeps the work from its end, when that changes."""
        self.abandoned = False
        self.hindered = hindered
        self._task: asyncio.Task[None] | None = None
        self._may_cut = False

    def bind(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def abandon(self) -> None:
        self.abandoned = True
        if self._may_cut and self._task is not None:
            self._task.cancel()

    def check(self) -> None:
        """Raise Abandoned when the work is of no more use."""
        if self.abandoned:
            raise Abandoned

    @asynccontextmanager
    async def may_cut(self) -> AsyncIterator[None]:
        """What is awaited inside may be cancelled at any point without harm. Raises Abandoned when it was."""
        self.check()
        self._may_cut = True
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.abandoned and task is not None and task.uncancel() == 0:
                raise Abandoned from None
            raise
        finally:
            self._may_cut = False
        self.check()

    @asynccontextmanager
    async def slot(self, slots: StartSlots, turn: Turn) -> AsyncIterator[None]:
        """One of the slots, once it is free. Raises Abandoned while waiting for it."""
        async with AsyncExitStack() as held:
            async with self.may_cut():
                await held.enter_async_context(slots.one(turn))
            yield
