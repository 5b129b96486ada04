"""The ConfigMap and the Secret (v1): what pods take environment variables and files from.

`decode` makes them from manifests; `objects` is how the rooms look them up. A secret's values are never shown: not by
an error, not by `repr`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated

import msgspec

from minikubelet.api.base import CONCEALED, Object, shown
from minikubelet.api.meta import ObjectMeta

OPAQUE = "Opaque"
#: A shorter one would tear words apart, and is none.
_SHORTEST_SECRET = 4


class ConfigMap(Object, tag_field="kind", tag="ConfigMap"):
    """`binary_data` is base64."""

    api_version: str = shown("v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
    immutable: bool | None = None


class Secret(Object, tag_field="kind", tag="Secret"):
    """`data` is base64. After `with_secret_defaults` everything is there, and `string_data` is empty."""

    api_version: str = shown("v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: Annotated[dict[str, str], CONCEALED] = {}
    string_data: Annotated[dict[str, str], CONCEALED] = {}
    type: str = shown(OPAQUE)
    immutable: bool | None = None

    def __repr__(self) -> str:
        keys = ", ".join(sorted(self.data.keys() | self.string_data.keys()))
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys: {keys})"


def with_config_map_defaults(config_map: ConfigMap) -> ConfigMap:
    return msgspec.structs.replace(config_map, metadata=_metadata(config_map.metadata))


def with_secret_defaults(secret: Secret) -> Secret:
    """`stringData` goes into `data`, where it wins over what is there under the same key."""
    plain = {key: base64.b64encode(text.encode()).decode() for key, text in secret.string_data.items()}
    return msgspec.structs.replace(
        secret,
        metadata=_metadata(secret.metadata),
        data={**secret.data, **plain},
        string_data={},
        type=secret.type or OPAQUE,
    )


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(metadata, namespace=metadata.namespace or "default")


def from_base64(text: str) -> bytes:
    """What the text stands for; line breaks in it are fine, as in the reference. Raises ValueError."""
    return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)


def concealed(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, apart from those that are too short to be looked for."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "<secret>")
    return text


def config_map_files(config_map: ConfigMap) -> dict[str, bytes]:
    """Every key with its content: `data`, then `binaryData` (VO-8)."""
    binary = {key: from_base64(text) for key, text in config_map.binary_data.items()}
    return {key: text.encode() for key, text in config_map.data.items()} | binary


def secret_files(secret: Secret) -> dict[str, bytes]:
    """Every key with its content."""
    return {key: from_base64(text) for key, text in secret.data.items()}
