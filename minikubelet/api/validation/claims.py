"""Checks of PersistentVolumeClaims, in the reference's words. Called by `decode`."""

from __future__ import annotations

from minikubelet.api import quantity
from minikubelet.api.claims import PersistentVolumeClaim
from minikubelet.api.problems import Problem, Problems, forbidden, invalid, required, unsupported
from minikubelet.api.validation.metadata import validate_metadata

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_claim(claim: PersistentVolumeClaim) -> list[Problem]:
    """Everything that is wrong with a defaulted claim."""
    return [*validate_metadata(claim.metadata, kind="persistent volume claim"), *_spec(claim)]


def _spec(claim: PersistentVolumeClaim) -> Problems:
    spec = claim.spec
    if not spec.access_modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in spec.access_modes:
        if mode not in _MODES:
            yield unsupported("spec.accessModes", mode, _MODES)
    if "ReadWriteOncePod" in spec.access_modes and len(spec.access_modes) > 1:
        yield forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes")
    storage = spec.resources.requests.get("storage")
    if storage is None:
        yield required("spec.resources[storage]")
    elif storage and quantity.parse(storage) <= 0:
        yield invalid("spec.resources[storage]", storage, "must be greater than zero", place="spec.resources.requests")
    if spec.volume_mode == "Block":
        yield forbidden("spec.volumeMode", "Block is not supported by this agent: a claim is a directory on this host")
    elif spec.volume_mode != "Filesystem":
        yield unsupported("spec.volumeMode", spec.volume_mode, ("Block", "Filesystem"))
