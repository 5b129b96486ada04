"""One container of a pod: regular, init or sidecar."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int32, Object, Quantity, Raw, shown
from minikubelet.api.environment import EnvFromSource, EnvVar
from minikubelet.api.handlers import Lifecycle, Probe
from minikubelet.api.security import SecurityContext
from minikubelet.api.support import NO_CLUSTER, NO_DEVICE_CLAIMS, refused

_NO_BLOCK_VOLUMES = refused(
    "not supported by this agent: a claim is a directory on this host; use volumeMounts, or give the container the "
    "device as a hostPath below /dev with privileged: true"
)


class ContainerPort(Object):
    container_port: Int32
    name: str = ""
    host_port: Int32 = 0
    host_ip: str = ""
    protocol: str = shown("TCP")


class ResourceRequirements(Object):
    """Quantities as canonical text; `api.quantity` reads them."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    claims: Annotated[tuple[Raw, ...], NO_DEVICE_CLAIMS] = ()


class ContainerResizePolicy(Object):
    resource_name: str
    restart_policy: str


class VolumeMount(Object):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(Object):
    name: str
    device_path: str


class RestartRuleExitCodes(Object):
    operator: str
    values: tuple[Int32, ...] = ()


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
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: Annotated[tuple[ContainerResizePolicy, ...], NO_CLUSTER] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: Annotated[tuple[VolumeDevice, ...], _NO_BLOCK_VOLUMES] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    termination_message_path: str = shown("/dev/termination-log")
    termination_message_policy: str = shown("File")
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


def is_sidecar(container: Container) -> bool:
    """Whether an entry of `initContainers` is a native sidecar (KEP-753). Meaningless for `containers`."""
    return container.restart_policy == "Always"
