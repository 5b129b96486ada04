"""Object metadata, shared by every kind."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int64, Object, Raw
from minikubelet.api.support import NO_CLUSTER, accepted

#: What an API server writes and a copied manifest carries along. Kept, it would be taken for this daemon's own word.
SERVER_WRITTEN = accepted("is written by an API server; it is dropped", keep=False)


class OwnerReference(Object):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Object):
    name: str = ""
    generate_name: Annotated[str, NO_CLUSTER] = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Annotated[str | None, SERVER_WRITTEN] = None
    deletion_timestamp: Annotated[str | None, SERVER_WRITTEN] = None
    deletion_grace_period_seconds: Annotated[Int64 | None, SERVER_WRITTEN] = None
    generation: Annotated[Int64 | None, SERVER_WRITTEN] = None
    resource_version: Annotated[str, SERVER_WRITTEN] = ""
    self_link: Annotated[str, SERVER_WRITTEN] = ""
    managed_fields: Annotated[tuple[Raw, ...], SERVER_WRITTEN] = ()
    finalizers: Annotated[tuple[str, ...], NO_CLUSTER] = ()
    owner_references: Annotated[tuple[OwnerReference, ...], NO_CLUSTER] = ()


def key_of(meta: ObjectMeta) -> str:
    """`namespace/name`, the identity of an object among its kind."""
    return f"{meta.namespace}/{meta.name}"
