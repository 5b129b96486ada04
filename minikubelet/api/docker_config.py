"""The docker configuration, which holds credentials for image registries, in both its forms (IM-8, IM-9).

Secrets of two types hold one, so `validation` reads it to say what is wrong; `pods/credentials.py` takes the entries.
Nothing said here tells more of the content than where a fault is: it is secret.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from minikubelet.api.configuration import from_base64

DOCKER_CONFIG_JSON = "kubernetes.io/dockerconfigjson"
DOCKER_CFG = "kubernetes.io/dockercfg"

#: `json`: entries are below `auths`. `cfg`: they are all there is.
Form = Literal["json", "cfg"]
#: What the Secrets of a type hold, and under which key.
SECRET_FORMS: dict[str, tuple[str, Form]] = {
    DOCKER_CONFIG_JSON: (".dockerconfigjson", "json"),
    DOCKER_CFG: (".dockercfg", "cfg"),
}


class DockerConfigError(ValueError):
    """It cannot be used; the message says why without showing anything of it."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    username: str
    password: str

    def __repr__(self) -> str:
        return "Login(...)"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """For which images a login is meant, as it is written."""

    location: str
    login: Login


class _Entry(msgspec.Struct):
    username: str | None = None
    password: str | None = None
    auth: str | None = None


class _Helpers(msgspec.Struct, rename="camel"):
    creds_store: Any = None
    cred_helpers: Any = None


class _Config(msgspec.Struct):
    auths: dict[str, _Entry | None] | None = None


def read_docker_config(data: bytes, form: Form) -> tuple[Entry, ...]:
    """The entries in their order. Fields that mean nothing here are passed over. Raises DockerConfigError."""
    found: dict[str, _Entry | None] | None
    try:
        if form == "json":
            found = msgspec.json.decode(data, type=_Config).auths
        else:
            found = msgspec.json.decode(data, type=dict[str, _Entry | None])
    except msgspec.ValidationError as error:
        raise DockerConfigError(f"must be a docker configuration: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise DockerConfigError("must be a JSON object") from None
    return tuple(
        Entry(location=location, login=_login(entry or _Entry(), number))
        for number, (location, entry) in enumerate((found or {}).items(), start=1)
    )


def names_helpers(data: bytes) -> bool:
    """Whether a configuration that can be read leaves credentials to programs."""
    found = msgspec.json.decode(data, type=_Helpers)
    return bool(found.creds_store or found.cred_helpers)


def _login(entry: _Entry, number: int) -> Login:
    if not entry.auth:
        return Login(username=entry.username or "", password=entry.password or "")
    text = entry.auth.strip().rstrip("=")
    try:
        decoded = from_base64(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        raise DockerConfigError(f"auth of entry {number} is not base64 of USER:PASSWORD") from None
    username, colon, password = decoded.partition(":")
    if not colon:
        raise DockerConfigError(f"auth of entry {number} is not base64 of USER:PASSWORD: there is no colon in it")
    return Login(username=username, password=password)
