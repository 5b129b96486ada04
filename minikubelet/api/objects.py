"""The objects that pods refer to by name, as one value: what there was at one moment.

`pods/objects.py` makes such a value of the folder's ConfigMaps, Secrets and claims; environment and volumes are pure
functions of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from minikubelet.api.claims import PersistentVolumeClaim
from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.pod import Container, Pod

CONFIG_MAP, SECRET, CLAIM = "ConfigMap", "Secret", "PersistentVolumeClaim"


class Ref(NamedTuple):
    """The name of an object that a pod needs or would take."""

    kind: str
    namespace: str
    name: str


class NotFoundError(LookupError):
    """A pod refers to an object that no manifest defines. The text is the reference's."""

    def __init__(self, ref: Ref) -> None:
        super().__init__(f'{ref.kind.lower()} "{ref.name}" not found')
        self.ref = ref


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Keys are `(namespace, name)`."""

    config_maps: Mapping[tuple[str, str], ConfigMap] = {}
    secrets: Mapping[tuple[str, str], Secret] = {}
    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = {}

    def config_map(self, namespace: str, name: str) -> ConfigMap:
        """Raises NotFoundError."""
        try:
            return self.config_maps[namespace, name]
        except KeyError:
            raise NotFoundError(Ref(CONFIG_MAP, namespace, name)) from None

    def secret(self, namespace: str, name: str) -> Secret:
        """Raises NotFoundError."""
        try:
            return self.secrets[namespace, name]
        except KeyError:
            raise NotFoundError(Ref(SECRET, namespace, name)) from None

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """Raises NotFoundError."""
        try:
            return self.claims[namespace, name]
        except KeyError:
            raise NotFoundError(Ref(CLAIM, namespace, name)) from None


def refs_of(pod: Pod) -> frozenset[Ref]:
    """Every object that the pod refers to, optional ones too."""
    refs: set[tuple[str, str]] = set()
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        refs.update(_of_environment(container))
    for volume in pod.spec.volumes:
        if volume.config_map is not None:
            refs.add((CONFIG_MAP, volume.config_map.name))
        if volume.persistent_volume_claim is not None:
            refs.add((CLAIM, volume.persistent_volume_claim.claim_name))
        if volume.secret is not None:
            refs.add((SECRET, volume.secret.secret_name))
        for source in volume.projected.sources if volume.projected is not None else ():
            if source.config_map is not None:
                refs.add((CONFIG_MAP, source.config_map.name))
            if source.secret is not None:
                refs.add((SECRET, source.secret.name))
    return frozenset(Ref(kind, pod.metadata.namespace, name) for kind, name in refs) | pull_secrets_of(pod)


def pull_secrets_of(pod: Pod) -> frozenset[Ref]:
    """The Secrets that hold the pod's credentials for image registries."""
    names = (reference.name for reference in pod.spec.image_pull_secrets)
    return frozenset(Ref(SECRET, pod.metadata.namespace, name) for name in names if name)


def _of_environment(container: Container) -> Iterator[tuple[str, str]]:
    for source in container.env_from:
        if source.config_map_ref is not None:
            yield CONFIG_MAP, source.config_map_ref.name
        if source.secret_ref is not None:
            yield SECRET, source.secret_ref.name
    for variable in container.env:
        if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
            yield CONFIG_MAP, variable.value_from.config_map_key_ref.name
        if variable.value_from is not None and variable.value_from.secret_key_ref is not None:
            yield SECRET, variable.value_from.secret_key_ref.name
