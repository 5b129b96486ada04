"""What the tables of `get` read of an object. Tolerant on purpose: a client shows what a newer or older server,
or a real kubelet's read-only port, sends it, and passes over what it does not know.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.base import kubernetes_name


class View(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_name):
    pass


class Meta(View, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Waiting(View, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class Running(View, frozen=True, kw_only=True):
    started_at: str | None = None


class Terminated(View, frozen=True, kw_only=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    finished_at: str | None = None


class State(View, frozen=True, kw_only=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    name: str
    state: State = State()
    last_state: State = State()
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0


class Condition(View, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class ReadinessGate(View, frozen=True, kw_only=True):
    condition_type: str


class Container(View, frozen=True, kw_only=True):
    name: str
    restart_policy: str | None = None


class PodSpec(View, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    readiness_gates: tuple[ReadinessGate, ...] = ()


class PodIP(View, frozen=True, kw_only=True):
    ip: str


class PodStatus(View, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    nominated_node_name: str = ""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(View, frozen=True, kw_only=True):
    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Reference(View, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class Source(View, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(View, frozen=True, kw_only=True):
    metadata: Meta = Meta()
    involved_object: Reference = Reference()
    source: Source = Source()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None
