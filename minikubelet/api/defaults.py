"""What a manifest leaves out, filled in as the reference does (IN-9, LC 12.9): other rooms never meet a gap.

Most defaults stand in the structs themselves; here is what depends on other fields, and what counts as left out when
it is written as zero or empty.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from minikubelet.api import quantity
from minikubelet.api.container import Container, ContainerPort, ResourceRequirements
from minikubelet.api.effective import HUGE_PAGES, container_requests, of_a_pod
from minikubelet.api.handlers import HTTPGetAction, LifecycleHandler, Probe
from minikubelet.api.image_name import default_pull_policy
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod, PodSpec
from minikubelet.api.security import PodSecurityContext
from minikubelet.api.volumes import EmptyDirVolumeSource, Volume

_Handlers = TypeVar("_Handlers", Probe, LifecycleHandler)


def with_defaults(pod: Pod) -> Pod:
    """The pod with every default written out. Applying it twice changes nothing."""
    return replace(pod, metadata=_metadata(pod.metadata), spec=_spec(pod.spec))


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return replace(metadata, namespace=metadata.namespace or "default")


def _spec(spec: PodSpec) -> PodSpec:
    grace = spec.termination_grace_period_seconds
    spec = replace(
        spec,
        containers=tuple(_container(c, host_network=spec.host_network) for c in spec.containers),
        init_containers=tuple(_container(c, host_network=spec.host_network) for c in spec.init_containers),
        volumes=tuple(_volume(v) for v in spec.volumes),
        restart_policy=spec.restart_policy or "Always",
        dns_policy=spec.dns_policy or "ClusterFirst",
        scheduler_name=spec.scheduler_name or "default-scheduler",
        security_context=spec.security_context or PodSecurityContext(),
        termination_grace_period_seconds=1 if grace < 0 else grace,
        overhead={name: quantity.canonical(value) for name, value in spec.overhead.items() if value},
    )
    return spec if spec.resources is None else replace(spec, resources=_pod_resources(spec, spec.resources))


def _volume(volume: Volume) -> Volume:
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        limit = quantity.canonical(volume.empty_dir.size_limit)
        return replace(volume, empty_dir=replace(volume.empty_dir, size_limit=limit))
    if volume.image is not None:
        policy = volume.image.pull_policy or default_pull_policy(volume.image.reference)
        return replace(volume, image=replace(volume.image, pull_policy=policy))
    has_source = any(getattr(volume, field) is not None for field in volume.__struct_fields__ if field != "name")
    return volume if has_source else replace(volume, empty_dir=EmptyDirVolumeSource())


def _container(container: Container, *, host_network: bool) -> Container:
    lifecycle = container.lifecycle
    if lifecycle is not None:
        lifecycle = replace(
            lifecycle,
            post_start=lifecycle.post_start and _handlers(lifecycle.post_start),
            pre_stop=lifecycle.pre_stop and _handlers(lifecycle.pre_stop),
        )
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or default_pull_policy(container.image),
        ports=tuple(_port(port, host_network=host_network) for port in container.ports),
        resources=_resources(container.resources),
        liveness_probe=container.liveness_probe and _probe(container.liveness_probe),
        readiness_probe=container.readiness_probe and _probe(container.readiness_probe),
        startup_probe=container.startup_probe and _probe(container.startup_probe),
        lifecycle=lifecycle,
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
    )


def _port(port: ContainerPort, *, host_network: bool) -> ContainerPort:
    host_port = port.host_port or (port.container_port if host_network else 0)
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def _resources(resources: ResourceRequirements) -> ResourceRequirements:
    resources = _canonical(resources)
    return replace(resources, requests={**resources.limits, **resources.requests})


def _pod_resources(spec: PodSpec, resources: ResourceRequirements) -> ResourceRequirements:
    """Requests that are left out beside limits: what the containers ask for together, else the limit."""
    resources = _canonical(resources)
    if not resources.limits:
        return resources
    together = {
        name: quantity.written(name, amount)
        for name, amount in container_requests(spec).items()
        if of_a_pod(name) and not name.startswith(HUGE_PAGES)
    }
    stand_in = {name: limit for name, limit in resources.limits.items() if of_a_pod(name)}
    return replace(resources, requests={**stand_in, **together, **resources.requests})


def _canonical(resources: ResourceRequirements) -> ResourceRequirements:
    limits = {name: quantity.canonical(value) for name, value in resources.limits.items() if value}
    requests = {name: quantity.canonical(value) for name, value in resources.requests.items() if value}
    return replace(resources, limits=limits, requests=requests)


def _probe(probe: Probe) -> Probe:
    return replace(
        _handlers(probe),
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
    )


def _handlers(handlers: _Handlers) -> _Handlers:
    if handlers.http_get is None:
        return handlers
    return replace(handlers, http_get=_http_get(handlers.http_get))


def _http_get(action: HTTPGetAction) -> HTTPGetAction:
    return replace(action, path=action.path or "/", scheme=action.scheme or "HTTP")
