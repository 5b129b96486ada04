"""Scenarios that want the agent (or the container runtime) down meet here: it goes down once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Meeting:
    """`parties` threads; each comes to `meet` as often as it likes, and must `leave` at the end, whatever happened."""

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._waiting = 0
        self._round = 0
        self._act: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def meet(self, act: Callable[[], None]) -> None:
        """Wait until all who have not left are here; then `act` is called once. Raises in all what it raised."""
        with self._changed:
            mine, self._act = self._round, act
            self._waiting += 1
            self._conclude()
            self._changed.wait_for(lambda: self._round != mine)
            if self._error is not None:
                raise RuntimeError("what all waited for failed") from self._error

    def leave(self) -> None:
        with self._changed:
            self._parties -= 1
            self._conclude()

    def _conclude(self) -> None:
        if self._act is None or self._waiting < self._parties:
            return
        act, self._act, self._error = self._act, None, None
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - goes to all who wait
            self._error = error
        self._waiting = 0
        self._round += 1
        self._changed.notify_all()
