"""The ConfigMaps, Secrets and claims of the folder, and who waits for one of them or follows its changes.

`daemon.py` brings what is in force after each reading of the folder; workers subscribe. Nothing is stored: the folder
is read before any pod is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from minikubelet.api.claims import PersistentVolumeClaim
from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.objects import CLAIM, CONFIG_MAP, SECRET, Objects, Ref

Key = tuple[str, str]
Stored = ConfigMap | Secret | PersistentVolumeClaim

#: Called with what appeared, changed or went.
Subscriber = Callable[[frozenset[Ref]], None]


class ObjectStore:
    def __init__(self) -> None:
        #: What there is now: a value, safe to hand to a thread.
        self.now = Objects()
        #: Some file cannot be read: what is not there may be in it.
        self.uncertain = False
        #: Grows with each change.
        self.version = 0
        self._subscribers: list[Subscriber] = []

    def apply(self, objects: Iterable[Stored], *, uncertain: bool = False) -> None:
        """Make these the objects there are, and tell of the differences.

        `uncertain`: see there; when that ends, subscribers are called with nothing if nothing else has changed.
        """
        found: dict[str, dict[Key, Any]] = {CONFIG_MAP: {}, SECRET: {}, CLAIM: {}}
        for it in objects:
            found[type(it).__name__][it.metadata.namespace, it.metadata.name] = it
        known: dict[str, Mapping[Key, Any]] = {
            CONFIG_MAP: self.now.config_maps,
            SECRET: self.now.secrets,
            CLAIM: self.now.claims,
        }
        self.now = Objects(config_maps=found[CONFIG_MAP], secrets=found[SECRET], claims=found[CLAIM])
        certain_now = self.uncertain and not uncertain
        self.uncertain = uncertain
        changed = {Ref(kind, *key) for kind, now in found.items() for key in _differing(known[kind], now)}
        if changed or certain_now:
            self.version += 1
            for subscriber in tuple(self._subscribers):
                subscriber(frozenset(changed))

    @contextlib.contextmanager
    def subscribed(self, subscriber: Subscriber) -> Iterator[None]:
        """Call `subscriber` with each change meanwhile. It must not block or raise."""
        self._subscribers.append(subscriber)
        try:
            yield
        finally:
            self._subscribers.remove(subscriber)

    @contextlib.contextmanager
    def watched(self, refs: Callable[[], frozenset[Ref]]) -> Iterator[asyncio.Event]:
        """An event that is set when one of these objects changes; whoever waits for it clears it."""
        changed = asyncio.Event()

        def note(which: frozenset[Ref]) -> None:
            if which & refs():
                changed.set()

        with self.subscribed(note):
            yield changed


def _differing(before: Mapping[Key, Any], now: Mapping[Key, Any]) -> set[Key]:
    return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
