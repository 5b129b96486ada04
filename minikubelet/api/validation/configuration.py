"""Checks of ConfigMaps and Secrets, in the reference's order and words. Called by `decode`.

What is said of a secret names its keys, never its values.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping

from minikubelet.api.configuration import ConfigMap, Secret, from_base64
from minikubelet.api.docker_config import SECRET_FORMS, DockerConfigError, read_docker_config
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.problems import Problem, Problems, forbidden, invalid, required, too_long
from minikubelet.api.validation import names
from minikubelet.api.validation.metadata import validate_metadata

#: All values of one object together.
MOST_BYTES = 1024 * 1024

_REDACTED = "<secret contents redacted>"
_IMMUTABLE = "field is immutable when `immutable` is set"
_ACCOUNT = "kubernetes.io/service-account.name"
#: What a type has to have; of `basic-auth` one of the two is enough.
_KEYS: Mapping[str, tuple[str, ...]] = {
    **{kind: (key,) for kind, (key, _) in SECRET_FORMS.items()},
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def validate_config_map(config_map: ConfigMap) -> list[Problem]:
    """Everything that is wrong with a defaulted ConfigMap."""
    problems = list(_metadata(config_map.metadata, kind="config map"))
    size = 0
    for key, text in config_map.data.items():
        problems += _key(key, f"data[{key}]")
        if key in config_map.binary_data:
            problems.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(text.encode())
    for key, text in config_map.binary_data.items():
        problems += _key(key, f"binaryData[{key}]")
        if key in config_map.data:
            problems.append(invalid(f"binaryData[{key}]", key, "duplicate of key present in data"))
        value, wrong = _decoded(text, f"binaryData[{key}]", instead="data")
        problems += wrong
        size += len(value)
    if size > MOST_BYTES:
        problems.append(too_long("", MOST_BYTES))
    return problems


def validate_secret(secret: Secret) -> list[Problem]:
    """Everything that is wrong with a defaulted Secret."""
    problems = list(_metadata(secret.metadata, kind="secret"))
    values: dict[str, bytes] = {}
    for key, text in secret.data.items():
        problems += _key(key, f"data[{key}]")
        values[key], wrong = _decoded(text, f"data[{key}]", instead="stringData")
        problems += wrong
    if sum(map(len, values.values())) > MOST_BYTES:
        problems.append(too_long("data", MOST_BYTES))
    return [*problems, *_type(secret, values)]


def config_map_update(old: ConfigMap, new: ConfigMap) -> list[Problem]:
    """What a changed manifest must not change: an immutable ConfigMap is what it is until it is removed."""
    if not old.immutable:
        return []
    problems = [] if new.immutable else [forbidden("immutable", _IMMUTABLE)]
    if old.data != new.data:
        problems.append(forbidden("data", _IMMUTABLE))
    if old.binary_data != new.binary_data:
        problems.append(forbidden("binaryData", _IMMUTABLE))
    return problems


def secret_update(old: Secret, new: Secret) -> list[Problem]:
    """As for a ConfigMap; a Secret's type never changes."""
    problems = []
    if old.type != new.type:
        problems.append(invalid("type", new.type, "field is immutable"))
    if not old.immutable:
        return problems
    if not new.immutable:
        problems.append(forbidden("immutable", _IMMUTABLE))
    if old.data != new.data:
        problems.append(forbidden("data", _IMMUTABLE))
    return problems


def _metadata(metadata: ObjectMeta, *, kind: str) -> Problems:
    return validate_metadata(metadata, kind=kind)


def _key(key: str, path: str) -> list[Problem]:
    return [invalid(path, key, detail) for detail in names.config_key(key)]


def _decoded(text: str, path: str, *, instead: str) -> tuple[bytes, list[Problem]]:
    try:
        return from_base64(text), []
    except (binascii.Error, ValueError):
        return b"", [Problem(path, f"Invalid value: is not base64; put plain text under {instead}")]


def _type(secret: Secret, values: Mapping[str, bytes]) -> Problems:
    wanted = _KEYS.get(secret.type, ())
    if secret.type == "kubernetes.io/service-account-token":
        if not secret.metadata.annotations.get(_ACCOUNT):
            yield required(f"metadata.annotations[{_ACCOUNT}]")
    elif secret.type == "kubernetes.io/basic-auth":
        if not values.keys() & set(wanted):
            for key in wanted:
                yield required(f"data[{key}]")
    elif secret.type == "kubernetes.io/ssh-auth":
        if not values.get(wanted[0]):
            yield required(f"data[{wanted[0]}]")
    else:
        for key in wanted:
            if key not in values:
                yield required(f"data[{key}]")
            elif secret.type in SECRET_FORMS:
                try:
                    read_docker_config(values[key], SECRET_FORMS[secret.type][1])
                except DockerConfigError as error:
                    yield invalid(f"data[{key}]", _REDACTED, str(error))
