"""A container's environment variables and where their values come from (EV-1 to EV-7)."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Object, Quantity, shown
from minikubelet.api.support import refused

_NO_FILES = refused(
    "not supported by this agent: mount the volume, and have the container's command read the file", even_empty=True
)


class ObjectFieldSelector(Object):
    field_path: str
    api_version: str = shown("v1")


class ResourceFieldSelector(Object):
    resource: str
    container_name: str = ""
    divisor: Quantity = shown("0")


class ConfigMapKeySelector(Object):
    key: str
    name: str = ""
    optional: bool | None = None


class SecretKeySelector(Object):
    key: str
    name: str = ""
    optional: bool | None = None


class FileKeySelector(Object):
    volume_name: str
    path: str
    key: str
    optional: bool | None = None


class EnvVarSource(Object):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None
    file_key_ref: Annotated[FileKeySelector | None, _NO_FILES] = None


class EnvVar(Object):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(Object):
    name: str = ""
    optional: bool | None = None


class SecretEnvSource(Object):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(Object):
    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None
