"""Checks of volumes that are made of objects and fields (VA-1). Called by `volumes`."""

from __future__ import annotations

from minikubelet.api.downward import FILE_FIELDS
from minikubelet.api.problems import Problems, forbidden, invalid, located, required
from minikubelet.api.validation.environment import validate_field_ref, validate_resource_ref
from minikubelet.api.validation.paths import file_path
from minikubelet.api.volumes import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    KeyToPath,
    ProjectedVolumeSource,
    SecretVolumeSource,
    VolumeProjection,
)

_HIGHEST_MODE = 0o777


def validate_config_map_volume(source: ConfigMapVolumeSource, path: str) -> Problems:
    if not source.name:
        yield required(f"{path}.name")
    yield from _mode(source.default_mode, f"{path}.defaultMode")
    yield from _items(source.items, f"{path}.items")


def validate_secret_volume(source: SecretVolumeSource, path: str) -> Problems:
    if not source.secret_name:
        yield required(f"{path}.secretName")
    yield from _mode(source.default_mode, f"{path}.defaultMode")
    yield from _items(source.items, f"{path}.items")


def validate_downward_volume(source: DownwardAPIVolumeSource, path: str) -> Problems:
    yield from _mode(source.default_mode, f"{path}.defaultMode")
    for index, item in enumerate(source.items):
        yield from located(_downward_file(item, path), f"{path}.items[{index}]")


def validate_projected_volume(source: ProjectedVolumeSource, path: str) -> Problems:
    yield from _mode(source.default_mode, f"{path}.defaultMode")
    seen: set[str] = set()
    for index, projection in enumerate(source.sources):
        place = f"{path}.sources[{index}]"
        yield from _projection(projection, place)
        named: list[tuple[str, str]] = []  # what the reference calls the one at fault, and its path
        if projection.secret is not None:
            named += [(projection.secret.name, item.path) for item in projection.secret.items]
        if projection.config_map is not None:
            named += [(projection.config_map.name, item.path) for item in projection.config_map.items]
        if projection.downward_api is not None:
            named += [(item.path, item.path) for item in projection.downward_api.items]
        for name, file in named:
            if file and file in seen:
                yield invalid(path, name, "conflicting duplicate paths", place=place)
            seen.add(file)


def _projection(projection: VolumeProjection, path: str) -> Problems:
    count = 0
    if (secret := projection.secret) is not None:
        count += 1
        if not secret.name:
            yield required(f"{path}.secret.name")
        yield from _items(secret.items, f"{path}.secret.items")
    if (config_map := projection.config_map) is not None:
        count += 1
        if not config_map.name:
            yield required(f"{path}.configMap.name")
        yield from _items(config_map.items, f"{path}.configMap.items")
    if projection.downward_api is not None:
        count += 1
        for index, item in enumerate(projection.downward_api.items):
            place = f"{path}.downwardAPI"
            yield from located(_downward_file(item, place), f"{place}.items[{index}]")
    if count > 1:
        yield forbidden(path, "may not specify more than 1 volume type")


def _items(items: tuple[KeyToPath, ...], path: str) -> Problems:
    for index, item in enumerate(items):
        place = f"{path}[{index}]"
        if not item.key:
            yield required(f"{place}.key")
        if not item.path:
            yield required(f"{place}.path")
        yield from file_path(item.path, f"{place}.path")
        yield from _mode(item.mode, f"{place}.mode")


def _downward_file(item: DownwardAPIVolumeFile, path: str) -> Problems:
    if not item.path:
        yield required(f"{path}.path")
    yield from file_path(item.path, f"{path}.path")
    if item.field_ref is not None:
        yield from validate_field_ref(item.field_ref, f"{path}.fieldRef", supported=FILE_FIELDS)
        if item.resource_field_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", detail)
    elif item.resource_field_ref is not None:
        yield from validate_resource_ref(item.resource_field_ref, f"{path}.resourceFieldRef", of_file=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode(item.mode, f"{path}.mode")


def _mode(mode: int | None, path: str) -> Problems:
    if mode is not None and not 0 <= mode <= _HIGHEST_MODE:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")
