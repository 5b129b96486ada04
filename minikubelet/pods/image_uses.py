"""Keeps starts of containers and removals of images apart: what a start is about to use is not removed under it.

From the look at its image until its container exists nothing in the runtime tells that a start needs the image. So
`starter.py` holds the pod's images for that time, and `node/image_keeper.py` asks here before it removes one. A start
that comes while its image is being removed waits for the end of that, and then finds the image gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator


class ImageUses:
    """Images are known here by each of their names, in full, and by the runtime's id."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._removals: dict[asyncio.Event, frozenset[str]] = {}  # with what is set when each has ended

    @contextlib.contextmanager
    def held(self, names: Collection[str]) -> Iterator[None]:
        """No removal of these begins meanwhile. One may be under way: see `settled`."""
        self._held.update(names)
        try:
            yield
        finally:
            self._held.subtract(names)
            self._held = +self._held  # without those that nobody holds any more

    async def settled(self, names: Collection[str]) -> None:
        """Wait until none of these is being removed. May be cancelled at any point."""
        while ends := [end for end, removed in self._removals.items() if not removed.isdisjoint(names)]:
            await ends[0].wait()

    @contextlib.contextmanager
    def removing(self, names: Collection[str]) -> Iterator[bool]:
        """An image with all these names is to be removed meanwhile; False: it must not be, a start needs it."""
        if any(name in self._held for name in names):
            yield False
            return
        ended = asyncio.Event()
        self._removals[ended] = frozenset(names)
        try:
            yield True
        finally:
            del self._removals[ended]
            ended.set()
