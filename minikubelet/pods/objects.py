"""The ConfigMaps and Secrets of the folder, and who waits for one of them or follows its changes.

`daemon.py` brings what is in force after each reading of the folder; workers subscribe. Nothing is stored: the folder
is read before any pod is looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.objects import CONFIG_MAP, SECRET, Objects, Ref

T = TypeVar("T")
Key = tuple[str, str]

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

    def apply(self, objects: Iterable[ConfigMap | Secret], *, uncertain: bool = False) -> None:
        """Make these the objects there are, and tell of the differences.

        `uncertain`: see there; when that ends, subscribers are called with nothing if nothing else has changed.
        """
        config_maps: dict[Key, ConfigMap] = {}
        secrets: dict[Key, Secret] = {}
        for it in objects:
            key = (it.metadata.namespace, it.metadata.name)
            if isinstance(it, ConfigMap):
                config_maps[key] = it
            else:
                secrets[key] = it
        before, self.now = self.now, Objects(config_maps=config_maps, secrets=secrets)
        certain_now = self.uncertain and not uncertain
        self.uncertain = uncertain
        changed = {Ref(CONFIG_MAP, *key) for key in _differing(before.config_maps, config_maps)}
        changed |= {Ref(SECRET, *key) for key in _differing(before.secrets, secrets)}
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


def _differing(before: Mapping[Key, T], now: Mapping[Key, T]) -> set[Key]:
    return {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
