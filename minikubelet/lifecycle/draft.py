"""A decision while it is drawn up: collects actions, events, wake-ups and the new memory.

Lives inside one call of `decide` and never leaves it; all values that go in and come out are immutable.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Action, Event
from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.records import Observed


class Draft:
    def __init__(
        self, pod: Pod, observed: Observed, memory: Memory, *, now: float, crash_backoff: BackoffPolicy
    ) -> None:
        self.pod = pod
        self.observed = observed
        self.memory = memory
        self.now = now
        self.crash_backoff = crash_backoff
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self._wakes: list[float] = []

    def change(self, **fields: Any) -> None:
        """Replace fields of the memory."""
        self.memory = msgspec.structs.replace(self.memory, **fields)

    def in_flight(self, key: str) -> bool:
        return key in self.memory.in_flight

    def hand_out(self, action: Action) -> bool:
        """Ask the shell for an action, unless the same one is in flight. Whether it was asked for now."""
        if self.in_flight(action.key):
            return False
        self.actions.append(action)
        self.change(in_flight=self.memory.in_flight | {action.key})
        return True

    def event(self, reason: str, message: str, *, container: str = "", kind: str = "Normal") -> None:
        self.events.append(Event(type=kind, reason=reason, message=message, container=container))

    def wake(self, at: float) -> None:
        """Decide again at this moment at the latest. A moment that has passed is no reason to wake."""
        if at > self.now:
            self._wakes.append(at)

    @property
    def wake_at(self) -> float | None:
        return min(self._wakes, default=None)
