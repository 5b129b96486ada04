"""All checks of a pod, in the reference's order (VA-1). Called by `decode`."""

from __future__ import annotations

from minikubelet.api.pod import Pod, PodSpec
from minikubelet.api.priority import is_critical
from minikubelet.api.problems import Problem, Problems, forbidden, invalid, required, unsupported
from minikubelet.api.validation import names
from minikubelet.api.validation.containers import (
    validate_containers,
    validate_image_blanks,
    validate_init_containers,
)
from minikubelet.api.validation.metadata import validate_log_folder, validate_metadata
from minikubelet.api.validation.network import (
    validate_dns_config,
    validate_host_aliases,
    validate_host_network_ports,
    validate_hostname_override,
)
from minikubelet.api.validation.resources import validate_overhead, validate_pod_resources
from minikubelet.api.validation.scheduling import validate_affinity, validate_node_selector, validate_tolerations
from minikubelet.api.validation.security import (
    validate_app_armor_agreement,
    validate_app_armor_annotations,
    validate_host_users,
    validate_pod_security,
)
from minikubelet.api.validation.volumes import validate_volumes

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
LONGEST_DEADLINE = 2**31 - 1


def validate_pod(pod: Pod, *, sidecar_containers: bool) -> list[Problem]:
    """Everything that is wrong with a defaulted pod. `sidecar_containers` is the feature gate of that name."""
    return [
        *validate_metadata(pod.metadata, kind="pod"),
        *validate_log_folder(pod.metadata),
        *validate_app_armor_annotations(pod.metadata, pod.spec),
        *validate_pod_spec(pod.spec, sidecar_containers=sidecar_containers),
        *validate_app_armor_agreement(pod.metadata, pod.spec),
    ]


def validate_pod_spec(spec: PodSpec, *, sidecar_containers: bool) -> Problems:
    yield from validate_volumes(spec.volumes)
    yield from validate_containers(spec)
    yield from validate_init_containers(spec, sidecar_containers=sidecar_containers)
    yield from validate_pod_resources(spec)
    yield from validate_host_network_ports(spec)
    if spec.restart_policy not in RESTART_POLICIES:
        yield unsupported("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    if spec.dns_policy not in DNS_POLICIES:
        yield unsupported("spec.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    yield from validate_node_selector(spec.node_selector)
    yield from validate_pod_security(spec)
    yield from validate_affinity(spec)
    yield from validate_dns_config(spec.dns_config, policy=spec.dns_policy)
    for index, gate in enumerate(spec.readiness_gates):
        for detail in names.qualified_name(gate.condition_type):
            yield invalid(f"spec.readinessGates[{index}].conditionType", gate.condition_type, detail)
    yield from validate_host_users(spec)
    yield from validate_hostname_override(spec)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= LONGEST_DEADLINE:
        detail = f"must be between 1 and {LONGEST_DEADLINE}, inclusive"
        yield invalid("spec.activeDeadlineSeconds", deadline, detail)
    if spec.hostname:
        for detail in names.dns_label(spec.hostname):
            yield invalid("spec.hostname", spec.hostname, detail)
    if spec.subdomain:
        for detail in names.dns_label(spec.subdomain):
            yield invalid("spec.subdomain", spec.subdomain, detail)
    yield from validate_tolerations(spec.tolerations)
    yield from validate_host_aliases(spec.host_aliases)
    if spec.priority_class_name:
        for detail in names.dns_subdomain(spec.priority_class_name):
            yield invalid("spec.priorityClassName", spec.priority_class_name, detail)
    for detail in names.dns_subdomain(spec.runtime_class_name) if spec.runtime_class_name is not None else ():
        yield invalid("spec.runtimeClassName", spec.runtime_class_name, detail)
    yield from validate_overhead(spec.overhead)
    if spec.os is not None:
        yield from _os(spec.os.name)
    yield from validate_image_blanks(spec)


def pod_warnings(pod: Pod) -> list[Problem]:
    """What a valid pod says that has no effect here, where that depends on the value."""
    return list(pod_spec_warnings(pod.spec))


def pod_spec_warnings(spec: PodSpec) -> Problems:
    name = spec.priority_class_name
    if name and not is_critical(spec):
        yield Problem("spec.priorityClassName", f"{name} has no meaning without a cluster")
    for index, reference in enumerate(spec.image_pull_secrets):
        if not reference.name:
            yield Problem(f"spec.imagePullSecrets[{index}]", "names no Secret, so it has no effect")


def _os(name: str) -> Problems:
    if not name:
        yield required("spec.os.name")
    elif name == "windows":
        yield forbidden("spec.os.name", "not supported by this agent")
    elif name != "linux":
        yield unsupported("spec.os.name", name, ("linux", "windows"))
