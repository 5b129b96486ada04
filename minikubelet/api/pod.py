"""The Pod (v1), as far as it is supported."""

from __future__ import annotations

import msgspec

from minikubelet.api.base import Object
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.status import PodStatus


class ExecAction(Object):
    command: tuple[str, ...] = ()


class HTTPHeader(Object):
    name: str
    value: str = ""


class HTTPGetAction(Object):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Object):
    port: int | str
    host: str = ""


class GRPCAction(Object):
    port: int
    service: str = ""


class SleepAction(Object):
    seconds: int


class Probe(Object):
    """Times in seconds; defaults are the kubelet's (probes-and-hooks 2.1)."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Object):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Object):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class ContainerPort(Object):
    container_port: int
    name: str = ""
    host_port: int = 0
    host_ip: str = ""
    protocol: str = "TCP"


class EnvVar(Object):
    name: str
    value: str = ""


class ResourceRequirements(Object):
    """Quantities stay as written; `api.quantity` reads them."""

    limits: dict[str, str] = {}
    requests: dict[str, str] = {}


class VolumeMount(Object):
    name: str
    mount_path: str
    read_only: bool = False


class RestartRuleExitCodes(Object):
    operator: str
    values: tuple[int, ...] = ()


class ContainerRestartRule(Object):
    action: str
    exit_codes: RestartRuleExitCodes | None = None


class Container(Object):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EmptyDirVolumeSource(Object):
    medium: str = ""
    size_limit: str | None = None


class HostPathVolumeSource(Object):
    path: str
    type: str = ""


class Volume(Object):
    name: str
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class PodSpec(Object):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    dns_policy: str = "ClusterFirst"
    host_network: bool = False
    hostname: str = ""
    node_name: str = ""


class Pod(Object, tag_field="kind", tag="Pod"):
    api_version: str = "v1"
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus | None = None


def is_sidecar(container: Container) -> bool:
    """Whether an entry of `initContainers` is a native sidecar (KEP-753). Meaningless for `containers`."""
    return container.restart_policy == "Always"
