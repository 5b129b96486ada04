"""Object metadata, shared by every kind."""

from __future__ import annotations

from minikubelet.api.base import Object


class ObjectMeta(Object):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    generation: int | None = None


def key_of(meta: ObjectMeta) -> str:
    """`namespace/name`, the identity of an object among its kind."""
    return f"{meta.namespace}/{meta.name}"
