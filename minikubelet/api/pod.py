"""The Pod (v1), every field of it, and the names that the other rooms import their pod types by."""

from __future__ import annotations

from typing import Annotated

import msgspec

from minikubelet.api.base import Int32, Int64, Object, Quantity, Raw, shown
from minikubelet.api.container import (
    Container,
    ContainerPort,
    ContainerRestartRule,
    ResourceRequirements,
    RestartRuleExitCodes,
    VolumeMount,
    is_sidecar,
)
from minikubelet.api.environment import EnvVar
from minikubelet.api.handlers import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.network import HostAlias, PodDNSConfig, PodDNSConfigOption
from minikubelet.api.scheduling import (
    Affinity,
    PodReadinessGate,
    PodSchedulingGate,
    PodSchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
)
from minikubelet.api.security import PodSecurityContext
from minikubelet.api.status import PodStatus
from minikubelet.api.support import NO_CLUSTER, NO_DEVICE_CLAIMS, accepted, refused
from minikubelet.api.volumes import EmptyDirVolumeSource, HostPathVolumeSource, Volume

__all__ = [
    "Container", "ContainerPort", "ContainerRestartRule", "EmptyDirVolumeSource", "EnvVar", "ExecAction", "GRPCAction",
    "HTTPGetAction", "HTTPHeader", "HostAlias", "HostPathVolumeSource", "Lifecycle", "LifecycleHandler", "Pod",
    "PodDNSConfig", "PodDNSConfigOption", "PodOS", "PodSpec", "Probe", "ResourceRequirements", "RestartRuleExitCodes",
    "SleepAction", "TCPSocketAction", "Volume", "VolumeMount", "is_sidecar",
]  # fmt: skip

_NO_ACCOUNTS = refused(
    "static pods may not reference serviceaccounts: there is no API server to have an account of; leave it out"
)
_NONE_ON_CREATE = refused(
    "cannot be set on create: an API server adds them to a pod that runs; make it a sidecar, or leave it out"
)
_NEVER_READY = accepted("needs a cluster: nothing here sets the conditions that it names, so the pod is never Ready")


class PodOS(Object):
    name: str


class LocalObjectReference(Object):
    name: str = ""


class PodSpec(Object):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: Annotated[tuple[Raw, ...], _NONE_ON_CREATE] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = shown("Always")
    termination_grace_period_seconds: Int64 = shown(30)
    active_deadline_seconds: Int64 | None = None
    os: PodOS | None = None

    dns_policy: str = shown("ClusterFirst")
    dns_config: PodDNSConfig | None = None
    hostname: str = ""
    hostname_override: str | None = None
    subdomain: str = ""
    set_hostname_as_fqdn: bool = False
    host_aliases: tuple[HostAlias, ...] = ()
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool = True
    share_process_namespace: bool = False
    security_context: PodSecurityContext | None = None

    resources: ResourceRequirements | None = None
    overhead: dict[str, Quantity] = {}
    runtime_class_name: str | None = None
    priority_class_name: str = ""
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    resource_claims: Annotated[tuple[Raw, ...], NO_DEVICE_CLAIMS] = ()
    service_account_name: Annotated[str, _NO_ACCOUNTS] = ""
    service_account: Annotated[str, _NO_ACCOUNTS] = ""
    automount_service_account_token: Annotated[bool | None, NO_CLUSTER] = None
    enable_service_links: Annotated[bool, NO_CLUSTER] = shown(True)

    node_name: Annotated[str, accepted("is always this node's name; what the file says is not used")] = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: Annotated[tuple[Toleration, ...], NO_CLUSTER] = ()
    topology_spread_constraints: Annotated[tuple[TopologySpreadConstraint, ...], NO_CLUSTER] = ()
    scheduler_name: Annotated[str, NO_CLUSTER] = shown("default-scheduler")
    scheduling_gates: Annotated[
        tuple[PodSchedulingGate, ...],
        refused("not supported by this agent: nothing here would ever clear a gate; leave it out"),
    ] = ()
    scheduling_group: Annotated[PodSchedulingGroup | None, NO_CLUSTER] = None
    readiness_gates: Annotated[tuple[PodReadinessGate, ...], _NEVER_READY] = ()
    priority: Annotated[Int32 | None, NO_CLUSTER] = None
    preemption_policy: Annotated[str | None, NO_CLUSTER] = None


class Pod(Object, tag_field="kind", tag="Pod"):
    api_version: str = shown("v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: Annotated[PodStatus | None, accepted("is worked out anew; what the file says is not used", keep=False)] = (
        None
    )
