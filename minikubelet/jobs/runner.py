"""What the Job room needs of the pods' room, as a contract; `daemon` gives it one, tests another (JOBS 12).

A pod is known by its uid. All methods return at once and may be called again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as it is now."""

    status: PodStatus
    #: When each container's last run ended, unix seconds with the runtime's precision; only of those that have ended.
    finish_times: Mapping[str, float] = {}


#: Called with a pod's uid whenever something about it has changed, its disappearance included.
Subscriber = Callable[[str], None]


class PodRunner(Protocol):
    def start(self, pod: Pod) -> None:
        """Run a pod that no manifest defines, or go on with it."""

    def keep(self, pod: Pod) -> None:
        """Go on with a pod that is to run no more: it ends in order, its records, status and logs stay.

        Does nothing if nothing is left of it.
        """

    def stop(self, uid: str) -> None:
        """End it in order; its records, status and logs stay."""

    def remove(self, uid: str) -> None:
        """End it in order; then nothing of it stays."""

    def seen(self, uid: str) -> Seen | None:
        """None: nothing is left of it, or it was never started."""

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Returns what ends the subscription."""

    def observed(self, uid: str) -> Awaitable[None]:
        """Until the pod, which was started, has been looked at in the runtime since the daemon began."""
