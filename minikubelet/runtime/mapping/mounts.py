"""What a container has mounted, as CRI's Mounts (MT-1 to MT-7)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from minikubelet.api.pod import Container, Pod, Volume, VolumeMount
from minikubelet.runtime.mapping.node import NodeContext
from minikubelet.runtime.pb import cri_pb2

HOSTS = "/etc/hosts"

_PROPAGATIONS = {
    None: cri_pb2.PROPAGATION_PRIVATE,
    "None": cri_pb2.PROPAGATION_PRIVATE,
    "HostToContainer": cri_pb2.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri_pb2.PROPAGATION_BIDIRECTIONAL,
}


class MountError(LookupError):
    """A mount cannot be made as the manifest wants it; for CreateContainerConfigError."""


class MountSources(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to mount; absolute paths on the host."""

    #: By volume name.
    volumes: Mapping[str, str] = {}
    #: Of image volumes: the runtime's reference of the image, by volume name.
    images: Mapping[str, str] = {}
    #: Of mounts with a subPath: the place that stands for it, by index among the container's mounts (MT-9).
    subpaths: Mapping[int, str] = {}
    #: The pod's hosts file (MT-4); None: the pod has no address yet.
    hosts_file: str | None = None
    #: A fresh empty file (MT-6); None if it could not be made.
    termination_log: str | None = None


def container_mounts(pod: Pod, container: Container, node: NodeContext, sources: MountSources) -> list[cri_pb2.Mount]:
    """MT-1: the container's own, the hosts file, the termination log. Raises MountError."""
    volumes = {volume.name: volume for volume in pod.spec.volumes}
    recursive = node.handler(pod.spec.runtime_class_name) in node.recursive_read_only
    mounts = []
    for index, mount in enumerate(container.volume_mounts):
        if mount.name not in sources.volumes or mount.name not in volumes:
            raise MountError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        if volumes[mount.name].image is not None:
            mounts.append(_image(mount, volumes[mount.name], node, sources))
            continue
        mounts.append(
            cri_pb2.Mount(
                container_path=_absolute(mount.mount_path),
                host_path=sources.subpaths.get(index, sources.volumes[mount.name]),
                readonly=mount.read_only or _is_read_only(volumes[mount.name]),
                selinux_relabel=node.se_linux and _is_the_pods_own(volumes[mount.name]),
                propagation=_PROPAGATIONS[mount.mount_propagation],
                recursive_read_only=_recursive(mount, supported=recursive),
            )
        )
    if sources.hosts_file is not None and all(mount.mount_path != HOSTS for mount in container.volume_mounts):
        mounts.append(_file(HOSTS, sources.hosts_file, node))
    if sources.termination_log is not None:
        path = _absolute(container.termination_message_path)
        mounts.append(_file(path, sources.termination_log, node))
    return mounts


def _file(path: str, source: str, node: NodeContext) -> cri_pb2.Mount:
    return cri_pb2.Mount(container_path=path, host_path=source, selinux_relabel=node.se_linux)


def _image(mount: VolumeMount, volume: Volume, node: NodeContext, sources: MountSources) -> cri_pb2.Mount:
    """What is in an image, read-only; the runtime finds and mounts it."""
    if not node.image_volumes:
        raise MountError(f'volume "{mount.name}" is an image, which containerd can mount from version 2.1 on')
    if mount.sub_path or mount.sub_path_expr:
        raise MountError(f'volume "{mount.name}" is an image, of which no subPath can be mounted; mount all of it')
    reference = volume.image.reference if volume.image is not None else ""
    image = cri_pb2.ImageSpec(image=sources.images[mount.name], user_specified_image=reference)
    return cri_pb2.Mount(container_path=_absolute(mount.mount_path), readonly=True, image=image)


def _recursive(mount: VolumeMount, *, supported: bool) -> bool:
    """MT-3: whether what is mounted below it becomes read-only as well."""
    if mount.recursive_read_only == "Enabled" and not supported:
        raise MountError(
            f'failed to resolve recursive read-only mode: volume "{mount.name}" requested recursive read-only mode, '
            "but it is not supported by the runtime"
        )
    return mount.recursive_read_only in ("Enabled", "IfPossible") and supported


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"


def _is_the_pods_own(volume: Volume) -> bool:
    """Whether what is mounted lives and ends with the pod, so that it may be given the pod's SELinux label (MT-2)."""
    return volume.host_path is None and volume.persistent_volume_claim is None


def _is_read_only(volume: Volume) -> bool:
    """Whatever the mount says: volumes whose content is ours (MT-2), and claims that say so."""
    ours = (volume.config_map, volume.secret, volume.downward_api, volume.projected)
    claim = volume.persistent_volume_claim
    return any(source is not None for source in ours) or (claim is not None and claim.read_only)
