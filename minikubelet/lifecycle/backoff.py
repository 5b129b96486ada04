"""Back-off of crashing containers (LC 7) and of failing image pulls (LC 6.2).

Pure arithmetic over a `BackoffEntry`. The lifecycle uses it with `CRASH`; `pods/images` uses it with `IMAGE`.
No jitter is added (LC 15.1).
"""

from __future__ import annotations

import json

import msgspec

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.memory import BackoffEntry


class BackoffPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds; `reset`: a pause between failures that long begins at `initial` again."""

    initial: float = 10.0
    factor: float = 2.0
    maximum: float = 300.0
    reset: float = 600.0


CRASH = BackoffPolicy()
IMAGE = BackoffPolicy()


def crash_key(pod: Pod, container: Container) -> str:
    """LC 7.1: a new image, new resources or a new pod uid is a new key."""
    meta = pod.metadata
    resources = msgspec.json.encode(container.resources, order="deterministic").decode()
    return json.dumps([meta.name, meta.namespace, meta.uid, container.name, container.image, resources])


def image_key(pod: Pod, image: str) -> str:
    """LC 6.2."""
    return json.dumps([pod.metadata.uid, image])


def check(entry: BackoffEntry | None, *, failed_at: float, now: float, policy: BackoffPolicy = CRASH) -> float | None:
    """When the next try is due if it may not be made now, else None (LC 7.3). `failed_at`: the last exit or failure."""
    if entry is None or failed_at - entry.last_update > policy.reset or now >= failed_at + entry.delay:
        return None
    return failed_at + entry.delay


def advance(entry: BackoffEntry | None, *, failed_at: float, now: float, policy: BackoffPolicy = CRASH) -> BackoffEntry:
    """The entry after a try is made (LC 7.4)."""
    if entry is None or failed_at - entry.last_update > policy.reset:
        return BackoffEntry(delay=min(policy.initial, policy.maximum), last_update=now)
    return BackoffEntry(delay=min(entry.delay * policy.factor, policy.maximum), last_update=now)


def not_to_come(entry: BackoffEntry, *, now: float) -> BackoffEntry:
    """The same entry, of now if it is of a moment that is still to come: the clock was set back since.

    To be kept in its place: asked again and again of the old one, it would put off what it holds back for ever.
    """
    return msgspec.structs.replace(entry, last_update=min(entry.last_update, now))


def prune(entries: dict[str, BackoffEntry], *, now: float, policy: BackoffPolicy = CRASH) -> dict[str, BackoffEntry]:
    """Without the entries that can hold nothing back any more (LC 7.5)."""
    horizon = now - policy.reset - policy.maximum
    return {key: entry for key, entry in entries.items() if entry.last_update >= horizon}


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`, `1h0m0s`."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
