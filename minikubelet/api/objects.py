"""The objects that pods refer to by name, as one value: what there was at one moment.

`pods/objects.py` makes such a value of the folder's ConfigMaps and Secrets; environment and volumes are pure functions
of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from minikubelet.api.configuration import ConfigMap, Secret

CONFIG_MAP, SECRET = "ConfigMap", "Secret"


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
