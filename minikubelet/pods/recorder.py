"""Kubernetes events of pods: told to the log, kept for the API, passed on to whoever subscribed (PH 10, LC 11.7).

Equal events are counted instead of repeated, as Kubernetes does. Nothing here waits or fails: recording an event must
never hold up what it tells of.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import structlog

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event

log = structlog.get_logger(__name__)

Subscriber = Callable[["RecordedEvent"], None]
_Key = tuple[str, Event]
_Group = tuple[str, str, str]

#: How many different events are kept, in all and of one reason of one container; the one that happened longest ago goes
#: first. The second bound keeps a probe whose output is never twice the same from driving out all else.
CAPACITY = 1000
CAPACITY_ALIKE = 20


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event with how often it happened. Times in unix seconds. `field_path` says which container, or is empty.

    `pod` is the name of what it is about, which may also be a Job or CronJob (`kind`).
    """

    kind: str = "Pod"
    namespace: str
    pod: str
    uid: str
    event: Event
    field_path: str = ""
    count: int
    first_at: float
    last_at: float


class EventRecorder:
    def __init__(self, *, clock: Callable[[], float] = time.time, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._events: dict[_Key, RecordedEvent] = {}  # in order of last_at
        self._alike: dict[_Group, dict[_Key, None]] = {}  # the keys of each group, in the same order
        self._subscribers: list[Subscriber] = []

    def event(self, pod: Pod, event: Event) -> None:
        """Record that `event` has happened to `pod` now."""
        now = self._clock()
        key = (pod.metadata.uid, event)
        before = self._events.pop(key, None)
        if before is None:
            recorded = RecordedEvent(
                namespace=pod.metadata.namespace,
                pod=pod.metadata.name,
                uid=pod.metadata.uid,
                event=event,
                field_path=_field_path(pod, event.container),
                count=1,
                first_at=now,
                last_at=now,
            )
        else:
            recorded = msgspec.structs.replace(before, count=before.count + 1, last_at=now)
        self._keep(key, recorded)
        self._log(recorded)
        for subscriber in tuple(self._subscribers):
            subscriber(recorded)

    def events(self, uid: str | None = None) -> list[RecordedEvent]:
        """What is kept, of all pods or of one, oldest `last_at` first."""
        return [recorded for recorded in self._events.values() if uid is None or recorded.uid == uid]

    def forget(self, uid: str) -> None:
        """Drop the events of a pod."""
        for key in [key for key in self._events if key[0] == uid]:
            self._drop(key)

    def _keep(self, key: _Key, recorded: RecordedEvent) -> None:
        alike = self._alike.setdefault(_group(key), {})
        alike.pop(key, None)
        alike[key] = None
        self._events[key] = recorded
        if len(alike) > CAPACITY_ALIKE:
            self._drop(next(iter(alike)))
        if len(self._events) > self._capacity:
            self._drop(next(iter(self._events)))

    def _drop(self, key: _Key) -> None:
        del self._events[key]
        group = _group(key)
        del self._alike[group][key]
        if not self._alike[group]:
            del self._alike[group]

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each event as it is recorded; returns how to end that. It must not block or raise."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def _log(self, recorded: RecordedEvent) -> None:
        """The first of equal events at its own level; repetitions (a probe failing each second) only for debugging."""
        event = recorded.event
        level = "debug" if recorded.count > 1 else "warning" if event.type == "Warning" else "info"
        about = {"container": event.container} if event.container else {}
        getattr(log, level)(
            event.message,
            reason=event.reason,
            pod=f"{recorded.namespace}/{recorded.pod}",
            uid=recorded.uid,
            count=recorded.count,
            **about,
        )


def _group(key: _Key) -> _Group:
    uid, event = key
    return uid, event.container, event.reason


def _field_path(pod: Pod, container: str) -> str:
    if not container:
        return ""
    init = any(entry.name == container for entry in pod.spec.init_containers)
    return f"spec.{'initContainers' if init else 'containers'}{{{container}}}"
