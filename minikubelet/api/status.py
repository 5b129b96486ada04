"""A pod's status as the kubelet publishes it (v1 PodStatus). Times are RFC 3339, UTC, whole seconds."""

from __future__ import annotations

from minikubelet.api.base import Object


class StateWaiting(Object):
    reason: str = ""
    message: str = ""


class StateRunning(Object):
    started_at: str | None = None


class StateTerminated(Object, omit_defaults=False):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = ""


class ContainerState(Object):
    """At most one field is set; none set encodes as `{}`, which means waiting without a reason."""

    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Object, omit_defaults=False):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started: bool = False


class PodCondition(Object, omit_defaults=False):
    type: str
    status: str
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodIP(Object):
    ip: str


class HostIP(Object):
    ip: str


class PodStatus(Object):
    phase: str = "Pending"
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
