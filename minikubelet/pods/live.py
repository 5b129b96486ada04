"""The live state of all pods: one store with subscribers, which `server/` and later a recorder and a watch hang on.

Workers put their pod in at each change; it is encoded once, however often it is read.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from minikubelet.api.pod import Pod

_encode = msgspec.json.Encoder().encode

#: Called with the pod's uid, and the pod as it is now or None when it is gone.
Subscriber = Callable[[str, Pod | None], None]


class LivePods:
    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._encoded: dict[str, bytes] = {}
        self._subscribers: list[Subscriber] = []
        #: Grows with each change (Kubernetes' resourceVersion).
        self.version = 0

    def put(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self._pods.get(uid) == pod:
            return
        self._pods[uid] = pod
        self._encoded.pop(uid, None)
        self._changed(uid, pod)

    def remove(self, uid: str) -> None:
        if self._pods.pop(uid, None) is not None:
            self._encoded.pop(uid, None)
            self._changed(uid, None)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Be told of each change from now on. Returns what ends it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def all(self) -> list[Pod]:
        return list(self._pods.values())

    def get(self, uid: str) -> Pod | None:
        return self._pods.get(uid)

    def encoded(self) -> list[bytes]:
        """Every pod as JSON, in the order in which they came."""
        for uid, pod in self._pods.items():
            if uid not in self._encoded:
                self._encoded[uid] = _encode(pod)
        return [self._encoded[uid] for uid in self._pods]

    def _changed(self, uid: str, pod: Pod | None) -> None:
        self.version += 1
        for subscriber in tuple(self._subscribers):
            subscriber(uid, pod)
