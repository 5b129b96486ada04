"""Which images are removed, and when (GI-1, D-8). Pure: `image_keeper` looks, remembers and removes.

An image is kept for as long as anything needs it: a container (running or not), the manifest of a pod, Job or CronJob,
an archive in the folder of image archives, the runtime itself (its sandbox image, pinned ones). And only what
minikubelet has brought is removed unasked: in containerd's namespace there may be others' images, which maybe cannot be
had again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Percentages of the file system that is used; ages in seconds. `maximum_age` 0: none."""

    high: int = 85
    low: int = 80
    minimum_age: float = 120.0
    maximum_age: float = 0.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The file system with the images, in bytes."""

    capacity: int
    available: int


class Image(msgspec.Struct, frozen=True, kw_only=True):
    #: The runtime's, `sha256:…`.
    id: str
    #: In full, by tag first; empty if it has none.
    names: tuple[str, ...] = ()
    size: int = 0
    in_use: bool = False
    #: Why it is not removed although nothing uses it; empty: it may be.
    protected: str = ""


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of an image: when it was first seen, and last seen in use (0: never). Unix seconds."""

    first: float
    used: float = 0.0

    @property
    def unused_since(self) -> float:
        return self.used or self.first


PINNED, SANDBOX, ARCHIVE, WANTED, OTHERS = "pinned", "sandbox image", "archive", "manifest", "others'"


def protection(
    names: Collection[str],
    *,
    pinned: bool,
    brought: bool,
    sandbox_image: str,
    archives: Collection[str],
    wanted: Collection[str],
) -> str:
    """All reasons to keep an image of these names that no container uses, "" if there is none.

    `brought`: by minikubelet, under each of its names.
    """
    reasons = {
        ARCHIVE: any(name in archives for name in names),
        WANTED: any(name in wanted for name in names),
        SANDBOX: sandbox_image in names,
        PINNED: pinned and sandbox_image not in names,  # newer containerd pins that one anyway
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds) or ("" if brought else OTHERS)


def seen(before: Mapping[str, Sight], images: Iterable[Image], *, now: float) -> dict[str, Sight]:
    """What is remembered after a look at all images. What was seen in the future (the clock was set back) is of now."""
    after = {}
    for image in images:
        known = before.get(image.id, Sight(first=now))
        sight = Sight(first=min(known.first, now), used=min(known.used, now))
        after[image.id] = msgspec.structs.replace(sight, used=now) if image.in_use else sight
    return after


def bytes_to_free(usage: Usage, limits: Limits) -> int:
    """GI-1: nothing below the higher threshold, else all that is above the lower one."""
    if not usage.capacity or limits.high == 100:
        return 0
    used_percent = 100 - usage.available * 100 // usage.capacity
    if used_percent < limits.high:
        return 0
    return max(usage.capacity * (100 - limits.low) // 100 - usage.available, 0)


def too_old(images: Iterable[Image], sights: Mapping[str, Sight], *, limits: Limits, now: float) -> list[Image]:
    """Those that nothing has used for longer than the maximum."""
    if not limits.maximum_age:
        return []
    return [it for it in _removable(images, sights) if now - sights[it.id].unused_since > limits.maximum_age]


def in_turn(images: Iterable[Image], sights: Mapping[str, Sight], *, limits: Limits, now: float) -> list[Image]:
    """Those that may be removed for want of space: least recently used first, then first seen first."""
    return [it for it in _removable(images, sights) if now - sights[it.id].first >= limits.minimum_age]


def _removable(images: Iterable[Image], sights: Mapping[str, Sight]) -> list[Image]:
    free = [it for it in images if not it.in_use and not it.protected]
    return sorted(free, key=lambda it: (sights[it.id].used, sights[it.id].first, it.id))
