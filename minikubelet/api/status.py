"""A pod's status as the kubelet publishes it (v1 PodStatus). Times are RFC 3339, UTC, whole seconds.

Fields with `shown` are always there, as in Kubernetes; the others only when they say something.
"""

from __future__ import annotations

from minikubelet.api.base import Object, shown


class StateWaiting(Object):
    reason: str = ""
    message: str = ""


class StateRunning(Object):
    started_at: str | None = shown(None)


class StateTerminated(Object):
    exit_code: int = shown(0)
    reason: str = ""
    message: str = ""
    started_at: str | None = shown(None)
    finished_at: str | None = shown(None)
    container_id: str = ""


class ContainerState(Object):
    """At most one field is set; none set encodes as `{}`, which means waiting without a reason."""

    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class VolumeMountStatus(Object):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None


class ContainerStatus(Object):
    name: str
    state: ContainerState = shown(ContainerState())
    last_state: ContainerState = shown(ContainerState())
    ready: bool = shown(False)
    restart_count: int = shown(0)
    image: str = shown("")
    image_id: str = shown("")
    container_id: str = ""
    started: bool = shown(False)
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


class PodCondition(Object):
    type: str
    status: str
    last_probe_time: str | None = shown(None)
    last_transition_time: str | None = shown(None)
    reason: str = ""
    message: str = ""


class PodIP(Object):
    ip: str


class HostIP(Object):
    ip: str


class PodStatus(Object):
    phase: str = shown("Pending")
    conditions: tuple[PodCondition, ...] = ()
    reason: str = ""
    message: str = ""
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
