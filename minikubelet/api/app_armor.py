"""AppArmor profiles in their old place, the pod's annotations: read by validation and by the mapping (SC-7)."""

from __future__ import annotations

from minikubelet.api.security import AppArmorProfile

#: Followed by the container's name.
ANNOTATION_PREFIX = "container.apparmor.security.beta.kubernetes.io/"

_LOCALHOST = "localhost/"
_NAMED = {
    "runtime/default": AppArmorProfile(type="RuntimeDefault"),
    "unconfined": AppArmorProfile(type="Unconfined"),
}


def profile_of_annotation(value: str) -> AppArmorProfile | None:
    """The profile that an annotation's value names; None: no such form."""
    if value.startswith(_LOCALHOST):
        return AppArmorProfile(type="Localhost", localhost_profile=value.removeprefix(_LOCALHOST))
    return _NAMED.get(value)
