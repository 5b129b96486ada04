"""Checks of a pod's volumes (VA-1). Called by `pods`."""

from __future__ import annotations

from minikubelet.api import quantity
from minikubelet.api.problems import Problem, Problems, duplicate, forbidden, invalid, required, unsupported
from minikubelet.api.validation import names
from minikubelet.api.validation.volume_files import (
    validate_config_map_volume,
    validate_downward_volume,
    validate_projected_volume,
    validate_secret_volume,
)
from minikubelet.api.volumes import (
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Volume,
)

HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def validate_volumes(volumes: tuple[Volume, ...]) -> Problems:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path = f"spec.volumes[{index}]"
        problems = [*_source(volume, path), *_name(volume.name, f"{path}.name")]
        if volume.name in seen:
            problems.append(duplicate(f"{path}.name", volume.name))
        if volume.name:
            seen.add(volume.name)
        yield from problems


def _name(name: str, path: str) -> list[Problem]:
    if not name:
        return [required(path)]
    return [invalid(path, name, detail) for detail in names.dns_label(name)]


def _source(volume: Volume, path: str) -> Problems:
    """The first one is checked, every other is one too many."""
    checks: dict[str, Problems] = {}
    if volume.empty_dir is not None:
        checks["emptyDir"] = _empty_dir(volume.empty_dir, f"{path}.emptyDir")
    if volume.host_path is not None:
        checks["hostPath"] = _host_path(volume.host_path, f"{path}.hostPath")
    if volume.secret is not None:
        checks["secret"] = validate_secret_volume(volume.secret, f"{path}.secret")
    if volume.persistent_volume_claim is not None:
        checks["persistentVolumeClaim"] = _claim(volume.persistent_volume_claim, f"{path}.persistentVolumeClaim")
    if volume.config_map is not None:
        checks["configMap"] = validate_config_map_volume(volume.config_map, f"{path}.configMap")
    if volume.downward_api is not None:
        checks["downwardAPI"] = validate_downward_volume(volume.downward_api, f"{path}.downwardAPI")
    if volume.projected is not None:
        checks["projected"] = validate_projected_volume(volume.projected, f"{path}.projected")
    if volume.image is not None:
        checks["image"] = _image(volume.image, f"{path}.image")
    for index, (name, check) in enumerate(checks.items()):
        if index == 0:
            yield from check
        else:
            yield forbidden(f"{path}.{name}", "may not specify more than 1 volume type")


def _image(source: ImageVolumeSource, path: str) -> Problems:
    if not source.reference:
        yield required(f"{path}.reference")
    policies = ("Always", "IfNotPresent", "Never")
    if source.pull_policy not in policies:
        yield unsupported(f"{path}.pullPolicy", source.pull_policy, policies)


def _claim(source: PersistentVolumeClaimVolumeSource, path: str) -> Problems:
    if not source.claim_name:
        yield required(f"{path}.claimName")


def _empty_dir(source: EmptyDirVolumeSource, path: str) -> Problems:
    if source.size_limit is not None and quantity.parse(source.size_limit) < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    size = source.medium.removeprefix("HugePages-")
    if size != source.medium:
        if not _is_size(size):
            yield invalid(f"{path}.medium", source.medium, "must name a size of huge pages such as HugePages-2Mi")
    elif source.medium not in ("", "HugePages", "Memory"):
        yield unsupported(f"{path}.medium", source.medium, ("", "HugePages", "HugePages-<size>", "Memory"))


def _is_size(text: str) -> bool:
    try:
        return quantity.parse(text) > 0
    except quantity.QuantityError:
        return False


def _host_path(source: HostPathVolumeSource, path: str) -> Problems:
    if not source.path:
        yield required(f"{path}.path")
    elif ".." in source.path.split("/"):
        yield invalid(f"{path}.path", source.path, "must not contain '..'")
    elif not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")
    if source.type not in HOST_PATH_TYPES:
        yield unsupported(f"{path}.type", source.type, HOST_PATH_TYPES)
