"""Checks of regular containers, init containers and sidecars (VA-1, VI-1 to VI-4). Called by `pods`."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from minikubelet.api.container import Container, ContainerPort, is_sidecar
from minikubelet.api.pod import PodSpec
from minikubelet.api.problems import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from minikubelet.api.validation import names
from minikubelet.api.validation.environment import validate_env, validate_env_from
from minikubelet.api.validation.handlers import refuse_handlers, validate_handlers
from minikubelet.api.validation.resources import validate_resize_policies, validate_resources
from minikubelet.api.validation.security import validate_container_security
from minikubelet.api.validation.volume_mounts import validate_volume_mounts

MOST_RESTART_RULES = 20
MOST_EXIT_CODES = 255


def validate_containers(spec: PodSpec) -> Problems:
    """The regular containers, then port conflicts among them."""
    if not spec.containers:
        yield required("spec.containers")
    volumes = {volume.name for volume in spec.volumes}
    seen: set[str] = set()
    for index, container in enumerate(spec.containers):
        path = f"spec.containers[{index}]"
        yield from _common(container, path, volumes, host_users=spec.host_users, init=False)
        if container.name in seen:
            yield duplicate(f"{path}.name", container.name)
        seen.add(container.name)
        yield from validate_handlers(container, path, grace=spec.termination_grace_period_seconds)
        yield from _restart_policy(container, path)
    paths = [f"spec.containers[{index}]" for index in range(len(spec.containers))]
    yield from _host_port_conflicts(zip(paths, spec.containers, strict=True))


def validate_init_containers(spec: PodSpec, *, sidecar_containers: bool) -> Problems:
    """Init containers and sidecars. `sidecar_containers`: the feature gate."""
    volumes = {volume.name for volume in spec.volumes}
    seen = {container.name for container in spec.containers if container.name}
    for index, container in enumerate(spec.init_containers):
        path = f"spec.initContainers[{index}]"
        yield from _common(container, path, volumes, host_users=spec.host_users, init=True)
        yield from _restart_policy(container, path)
        if is_sidecar(container) and not sidecar_containers:
            detail = "sidecars are switched off: the feature gate SidecarContainers is false in the configuration"
            yield forbidden(f"{path}.restartPolicy", detail)
        if container.name in seen:
            yield duplicate(f"{path}.name", container.name)
        elif container.name:
            seen.add(container.name)
        yield from _host_port_conflicts([(path, container)])
        if is_sidecar(container):
            yield from validate_handlers(container, path, grace=spec.termination_grace_period_seconds)
        else:
            yield from refuse_handlers(container, path)


def validate_image_blanks(spec: PodSpec) -> Problems:
    """An image name with blanks around it; the reference looks at this last of all."""
    for place, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            if container.image != container.image.strip():
                detail = "must not have leading or trailing whitespace"
                yield invalid(f"spec.{place}[{index}].image", container.image, detail)


def _common(container: Container, path: str, volumes: AbstractSet[str], *, host_users: bool, init: bool) -> Problems:
    if not container.name:
        yield required(f"{path}.name")
    else:
        for detail in names.dns_label(container.name):
            yield invalid(f"{path}.name", container.name, detail)
    if not container.image:
        yield required(f"{path}.image")
    policies = ("File", "FallbackToLogsOnError")
    if container.termination_message_policy not in policies:
        place = f"{path}.terminationMessagePolicy"
        yield unsupported(place, container.termination_message_policy, policies)
    yield from _ports(container.ports, f"{path}.ports")
    yield from validate_env(container.env, f"{path}.env")
    yield from validate_env_from(container.env_from, f"{path}.envFrom")
    yield from validate_volume_mounts(container, f"{path}.volumeMounts", volumes)
    pull_policies = ("Always", "IfNotPresent", "Never")
    if container.image_pull_policy not in pull_policies:
        yield unsupported(f"{path}.imagePullPolicy", container.image_pull_policy, pull_policies)
    yield from validate_resources(container.resources, f"{path}.resources")
    yield from validate_resize_policies(container, path, init=init)
    yield from validate_container_security(container.security_context, f"{path}.securityContext", host_users=host_users)


def _ports(ports: tuple[ContainerPort, ...], path: str) -> Problems:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if port.name:
            problems = names.port_name(port.name)
            for detail in problems:
                yield invalid(f"{place}.name", port.name, detail)
            if not problems and port.name in seen:
                yield duplicate(f"{place}.name", port.name)
            seen.add(port.name)
        if port.container_port == 0:
            yield required(f"{place}.containerPort")
        else:
            for detail in names.port_number(port.container_port):
                yield invalid(f"{place}.containerPort", port.container_port, detail)
        if port.host_port != 0:
            for detail in names.port_number(port.host_port):
                yield invalid(f"{place}.hostPort", port.host_port, detail)
        if port.host_ip:
            for detail in names.ip_address(port.host_ip):
                yield invalid(f"{place}.hostIP", port.host_ip, detail)
        protocols = ("SCTP", "TCP", "UDP")
        if port.protocol not in protocols:
            yield unsupported(f"{place}.protocol", port.protocol, protocols)


def _restart_policy(container: Container, path: str) -> Problems:
    policies = ("Always", "Never", "OnFailure")
    rules = container.restart_policy_rules
    if container.restart_policy is None:
        if rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif container.restart_policy not in policies:
        yield unsupported(f"{path}.restartPolicy", container.restart_policy, policies)
    if len(rules) > MOST_RESTART_RULES:
        yield too_many(f"{path}.restartPolicyRules", len(rules), MOST_RESTART_RULES)
    for index, rule in enumerate(rules):
        place = f"{path}.restartPolicyRules[{index}]"
        actions = ("Restart", "RestartAllContainers")
        if not rule.action:
            yield required(f"{place}.action")
        elif rule.action not in actions:
            yield unsupported(f"{place}.action", rule.action, actions)
        if rule.exit_codes is None:
            yield required(f"{place}.exitCodes", "must be specified")
            continue
        operators = ("In", "NotIn")
        if not rule.exit_codes.operator:
            yield required(f"{place}.exitCodes.operator")
        elif rule.exit_codes.operator not in operators:
            yield unsupported(f"{place}.exitCodes.operator", rule.exit_codes.operator, operators)
        if len(rule.exit_codes.values) > MOST_EXIT_CODES:
            yield too_many(f"{place}.exitCodes.values", len(rule.exit_codes.values), MOST_EXIT_CODES)


def _host_port_conflicts(containers: Iterable[tuple[str, Container]]) -> Problems:
    seen: set[str] = set()
    for path, container in containers:
        for index, port in enumerate(container.ports):
            if port.host_port == 0:
                continue
            endpoint = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if endpoint in seen:
                yield duplicate(f"{path}.ports[{index}].hostPort", endpoint)
            seen.add(endpoint)
