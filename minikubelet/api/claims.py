"""The PersistentVolumeClaim (v1): storage that outlives the pods that use it.

On a single host it is a directory of the agent's own; class, size and volume mean nothing there and are only checked.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from minikubelet.api.base import Object, Quantity, Raw, shown
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.scheduling import LabelSelector
from minikubelet.api.support import accepted, refused

_NO_SIZE = accepted("is not enforced: a claim is a directory on this host")
_ONE_CLASS = accepted("has no meaning here: a claim is a directory on this host")
_NO_COPIES = refused("not supported by this agent: a claim begins as an empty directory", even_empty=True)


class VolumeResourceRequirements(Object):
    limits: Annotated[dict[str, Quantity], _NO_SIZE] = {}
    requests: dict[str, Quantity] = {}


class PersistentVolumeClaimSpec(Object):
    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: Annotated[str | None, _ONE_CLASS] = None
    volume_attributes_class_name: Annotated[str | None, _ONE_CLASS] = None
    volume_mode: str = shown("Filesystem")
    volume_name: Annotated[str, _ONE_CLASS] = ""
    selector: Annotated[LabelSelector | None, _ONE_CLASS] = None
    data_source: Annotated[Raw, _NO_COPIES] = None
    data_source_ref: Annotated[Raw, _NO_COPIES] = None


class PersistentVolumeClaim(Object, tag_field="kind", tag="PersistentVolumeClaim"):
    api_version: str = shown("v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: Annotated[Raw, accepted("is worked out anew; what the file says is not used", keep=False)] = None


def with_claim_defaults(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    metadata = msgspec.structs.replace(claim.metadata, namespace=claim.metadata.namespace or "default")
    spec = msgspec.structs.replace(claim.spec, volume_mode=claim.spec.volume_mode or "Filesystem")
    return msgspec.structs.replace(claim, metadata=metadata, spec=spec)
