"""Tells of images that have come to this host otherwise than by a pod's own pull, so that nobody waits in vain for one.

Archives and commands bring them; workers, and sandboxes about to be made, subscribe.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator

#: Called with images' full names. It must not block or raise.
Subscriber = Callable[[Collection[str]], None]


class ImageNews:
    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._arrivals: dict[str, int] = {}  # when by `moment`, by name
        #: Grows with each arrival.
        self.moment = 0

    def arrived(self, names: Collection[str]) -> None:
        """These images, by full name, are there now."""
        self.moment += 1
        self._arrivals.update(dict.fromkeys(names, self.moment))
        for subscriber in tuple(self._subscribers):
            subscriber(names)

    def since(self, moment: int, names: Collection[str]) -> bool:
        """Whether one of these has arrived after that moment."""
        return any(self._arrivals.get(name, 0) > moment for name in names)

    @contextlib.contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Call `subscriber` with each arrival meanwhile."""
        self._subscribers.append(subscriber)
        try:
            yield
        finally:
            self._subscribers.remove(subscriber)
