"""What a container's status says of its mounts: the manifest's, and how far down each is read-only (MT-3)."""

from __future__ import annotations

from msgspec.structs import replace

from minikubelet.api.pod import Container, Pod, VolumeMount
from minikubelet.api.status import ContainerStatus, PodStatus, VolumeMountStatus


def with_mounts(pod: Pod, status: PodStatus, *, recursive: bool) -> PodStatus:
    """The status with every container's mounts. `recursive`: the runtime can make mounts read-only all the way down."""
    containers = {it.name: it for it in (*pod.spec.init_containers, *pod.spec.containers) if it.volume_mounts}
    if not containers:
        return status

    mounts = {name: _mounts(container, recursive=recursive) for name, container in containers.items()}

    def completed(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
        return tuple(replace(it, volume_mounts=mounts.get(it.name, ())) for it in statuses)

    return replace(
        status,
        init_container_statuses=completed(status.init_container_statuses),
        container_statuses=completed(status.container_statuses),
    )


def _mounts(container: Container, *, recursive: bool) -> tuple[VolumeMountStatus, ...]:
    return tuple(
        VolumeMountStatus(
            name=mount.name,
            mount_path=mount.mount_path,
            read_only=mount.read_only,
            recursive_read_only=_how_far(mount, recursive=recursive) if mount.read_only else None,
        )
        for mount in container.volume_mounts
    )


def _how_far(mount: VolumeMount, *, recursive: bool) -> str:
    asked = mount.recursive_read_only in ("Enabled", "IfPossible")
    return "Enabled" if asked and recursive else "Disabled"
