"""Checks of a container's volume mounts (VA-1). Called by `containers`."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from minikubelet.api.container import Container, VolumeMount
from minikubelet.api.problems import Problems, forbidden, invalid, located, not_found, required, unsupported
from minikubelet.api.validation.paths import descending_path

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: Container, path: str, volumes: AbstractSet[str]) -> Problems:
    """`path`: of the mounts; the reference leaves their index out where it is not needed to find the field."""
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}[{index}]"
        if not mount.name:
            yield required(f"{place}.name")
        elif mount.name not in volumes:
            yield not_found(f"{place}.name", mount.name)
        if not mount.mount_path:
            yield required(f"{place}.mountPath")
        elif mount.mount_path in seen:
            yield invalid(f"{place}.mountPath", mount.mount_path, "must be unique")
        seen.add(mount.mount_path)
        if mount.sub_path:
            yield from located(descending_path(mount.sub_path, f"{path}.subPath"), f"{place}.subPath")
        if mount.sub_path_expr:
            if mount.sub_path:
                detail = "subPathExpr and subPath are mutually exclusive"
                yield invalid(f"{place}.subPathExpr", mount.sub_path_expr, detail)
            problems = descending_path(mount.sub_path_expr, f"{path}.subPathExpr")
            yield from located(problems, f"{place}.subPathExpr")
        if mount.mount_propagation is not None:
            problems = _propagation(mount.mount_propagation, container, f"{path}.mountPropagation")
            yield from located(problems, place)
        yield from located(_recursive_read_only(mount, f"{path}.recursiveReadOnly"), place)


def _propagation(propagation: str, container: Container, path: str) -> Problems:
    if propagation not in _PROPAGATIONS:
        yield unsupported(path, propagation, _PROPAGATIONS)
    context = container.security_context
    if propagation == "Bidirectional" and not (context is not None and context.privileged):
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _recursive_read_only(mount: VolumeMount, path: str) -> Problems:
    wanted = mount.recursive_read_only
    if wanted in (None, "Disabled"):
        return
    if wanted not in _RECURSIVE:
        yield unsupported(path, wanted, _RECURSIVE)
        return
    if not mount.read_only:
        yield forbidden(path, "may only be specified when readOnly is true")
    if mount.mount_propagation not in (None, "None"):
        yield forbidden(path, "may only be specified when mountPropagation is None or not specified")
