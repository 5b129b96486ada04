"""What files a volume made of objects and fields has: pure, from the pod and the objects there are (VO-8, VO-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import msgspec

from minikubelet.api.configuration import config_map_files, secret_files
from minikubelet.api.downward import Addresses, field_text, resource_text
from minikubelet.api.objects import NotFoundError, Objects
from minikubelet.api.pod import Pod, Volume
from minikubelet.api.volumes import DownwardAPIVolumeFile, KeyToPath, VolumeProjection
from minikubelet.pods.gotext import quote
from minikubelet.pods.volumes.atomic import File
from minikubelet.pods.volumes.plugin import PluginError


class UncertainError(Exception):
    """Something optional is missing, but may only be unreadable at the moment."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """`allocatable`: see NodeContext. `uncertain`: what is not in `objects` may be there all the same."""

    pod: Pod
    objects: Objects = Objects()
    allocatable: Mapping[str, Fraction] = {}
    uncertain: bool = False


def payload_of(volume: Volume, sources: Sources) -> dict[str, File]:
    """Raises PluginError with the reference's text, or UncertainError."""
    if (config_map := volume.config_map) is not None:
        return _config_map(
            config_map.name, config_map.items, sources, mode=config_map.default_mode, optional=config_map.optional
        )
    if (secret := volume.secret) is not None:
        return _secret(secret.secret_name, secret.items, sources, mode=secret.default_mode, optional=secret.optional)
    if (downward := volume.downward_api) is not None:
        return _downward(downward.items, sources, mode=downward.default_mode)
    if (projected := volume.projected) is not None:
        return _projected(projected.sources, sources, mode=projected.default_mode)
    raise PluginError("it is made of nothing")


def _projected(projections: tuple[VolumeProjection, ...], sources: Sources, *, mode: int) -> dict[str, File]:
    """A later source wins; all that fail are told together."""
    payload: dict[str, File] = {}
    problems = []
    for projection in projections:
        try:
            payload |= _projection(projection, sources, mode=mode)
        except PluginError as problem:
            problems.append(str(problem))
    if problems:
        raise PluginError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return payload


def _projection(projection: VolumeProjection, sources: Sources, *, mode: int) -> dict[str, File]:
    if (secret := projection.secret) is not None:
        return _secret(secret.name, secret.items, sources, mode=mode, optional=secret.optional)
    if (config_map := projection.config_map) is not None:
        return _config_map(config_map.name, config_map.items, sources, mode=mode, optional=config_map.optional)
    if projection.downward_api is not None:
        return _downward(projection.downward_api.items, sources, mode=mode)
    return {}


def _config_map(
    name: str, items: tuple[KeyToPath, ...], sources: Sources, *, mode: int, optional: bool | None
) -> dict[str, File]:
    namespace = sources.pod.metadata.namespace
    contents = _found(lambda: config_map_files(sources.objects.config_map(namespace, name)), sources, optional=optional)
    return dict(
        _chosen(contents, items, mode=mode, optional=optional, missing="configmap references non-existent config key: ")
    )


def _secret(
    name: str, items: tuple[KeyToPath, ...], sources: Sources, *, mode: int, optional: bool | None
) -> dict[str, File]:
    namespace = sources.pod.metadata.namespace
    contents = _found(lambda: secret_files(sources.objects.secret(namespace, name)), sources, optional=optional)
    return dict(_chosen(contents, items, mode=mode, optional=optional, missing="references non-existent secret key: "))


def _found(look_up: Callable[[], dict[str, bytes]], sources: Sources, *, optional: bool | None) -> dict[str, bytes]:
    try:
        return look_up()
    except NotFoundError as problem:
        if not optional:
            raise PluginError(str(problem)) from problem
        if sources.uncertain:
            raise UncertainError from problem
        return {}


def _chosen(
    contents: Mapping[str, bytes], items: tuple[KeyToPath, ...], *, mode: int, optional: bool | None, missing: str
) -> Iterator[tuple[str, File]]:
    if not items:
        for key, content in contents.items():
            yield key, File(content, mode)
    for item in items:
        if item.key in contents:
            yield item.path, File(contents[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise PluginError(f"{missing}{item.key}")


def _downward(items: tuple[DownwardAPIVolumeFile, ...], sources: Sources, *, mode: int) -> dict[str, File]:
    return {
        item.path: File(_downward_text(item, sources).encode(), mode if item.mode is None else item.mode)
        for item in items
    }


def _downward_text(item: DownwardAPIVolumeFile, sources: Sources) -> str:
    meta = sources.pod.metadata
    if item.field_ref is not None:
        path = item.field_ref.field_path
        whole = {"metadata.labels": meta.labels, "metadata.annotations": meta.annotations}
        return _lines(whole[path]) if path in whole else field_text(sources.pod, path, Addresses())
    if (selector := item.resource_field_ref) is not None:
        for container in (*sources.pod.spec.containers, *sources.pod.spec.init_containers):
            if container.name == selector.container_name:
                return resource_text(container, selector, allocatable=sources.allocatable)
        raise PluginError(f"container {selector.container_name} not found")
    raise PluginError(f"{item.path} refers to nothing")


def _lines(values: Mapping[str, str]) -> str:
    """One `key="value"` a line, sorted, without a final line break (VO-9)."""
    return "\n".join(f"{key}={quote(value)}" for key, value in sorted(values.items()))
