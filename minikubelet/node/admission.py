"""Whether a pod may run on this node beside those that do: AD-1 to AD-7 as one pure function of values.

`daemon.py` gives it to `pods/admission.py`, which asks before a pod begins. Only the first thing that is wrong is told,
in the kubelet's order. What the kubelet checks besides cannot occur here: the node's name is always ours, and pods for
another operating system are refused as manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec

from minikubelet.api.app_armor import ANNOTATION_PREFIX, profile_of_annotation
from minikubelet.api.effective import Amounts, effective_requests
from minikubelet.api.pod import ContainerPort, Pod, PodSpec, is_sidecar
from minikubelet.node.selectors import matches_node
from minikubelet.node.settings import OS_LABEL
from minikubelet.node.sysctls import sysctl_refusal
from minikubelet.pods.admission import Refusal

#: First these, in this order; then what else a pod asks for.
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_MOST_KNOWN = 1000
_ANY_ADDRESS = ("", "0.0.0.0")  # noqa: S104 - compared, not bound


def needs_of(pod: Pod) -> Amounts:
    """What a pod takes of the node."""
    return effective_requests(pod.spec, overhead=True)


class NeedsBook:
    """`needs_of`, worked out once for each pod: hundreds are compared with hundreds when many begin at once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[PodSpec, Amounts]] = {}  # by uid

    def __call__(self, pod: Pod) -> Amounts:
        spec, needs = self._known.pop(pod.metadata.uid, (None, {}))
        if spec is not pod.spec:
            needs = needs_of(pod)
        self._known[pod.metadata.uid] = (pod.spec, needs)
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]  # the one that was not asked about for the longest time
        return needs


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What the node offers."""

    name: str
    labels: Mapping[str, str]
    #: Cpu in cores, the rest in bytes.
    allocatable: Amounts
    max_pods: int
    #: Sysctls that pods may set: names, and beginnings that end in `*`.
    sysctls: frozenset[str]
    #: Whether the kernel enforces AppArmor profiles.
    app_armor: bool
    #: Whether the runtime can hold a pod to the groups that it names.
    strict_groups: bool
    runtime_classes: frozenset[str]


def admit(pod: Pod, active: Sequence[Pod], node: Node, *, needs: Callable[[Pod], Amounts] = needs_of) -> Refusal | None:
    """None: it may begin. `active`: pods that are admitted and have not ended. `needs`: `needs_of`, or quicker."""
    checks: tuple[Callable[[], Refusal | None], ...] = (
        lambda: sysctl_refusal(pod, node.sysctls),
        lambda: _os_label(pod, node),
        lambda: _groups(pod, node),
        lambda: _room(pod, active, node, needs),
        lambda: _place(pod, node),
        lambda: _ports(pod, active),
        lambda: _app_armor(pod, node),
        lambda: _runtime_class(pod, node),
    )
    return next((refusal for check in checks if (refusal := check()) is not None), None)


def _os_label(pod: Pod, node: Node) -> Refusal | None:
    if pod.metadata.labels.get(OS_LABEL) in (None, node.labels.get(OS_LABEL)):
        return None
    return Refusal(
        reason="PodOSSelectorNodeLabelDoesNotMatch",
        message=f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label",
    )


def _groups(pod: Pod, node: Node) -> Refusal | None:
    context = pod.spec.security_context
    if node.strict_groups or context is None or context.supplemental_groups_policy != "Strict":
        return None
    return Refusal(
        reason="SupplementalGroupsPolicyNotSupported",
        message="SupplementalGroupsPolicy=Strict is not supported in this node",
    )


def _room(pod: Pod, active: Sequence[Pod], node: Node, needs: Callable[[Pod], Amounts]) -> Refusal | None:
    """AD-4. What is more than the whole node has will never fit."""
    if len(active) + 1 > node.max_pods:
        return _out_of("pods", 1, len(active), node.max_pods)
    asked = {name: amount for name, amount in needs(pod).items() if amount > 0}
    in_use = [needs(other) for other in active] if asked else []
    for name in sorted(asked, key=_turn):
        requested = asked[name]
        used = sum((amounts.get(name, Fraction()) for amounts in in_use), Fraction())
        offered = node.allocatable.get(name, Fraction())
        if requested > offered - used:
            unit = 1000 if name == "cpu" else 1
            return _out_of(name, *(_ceil(amount * unit) for amount in (requested, used, offered)))
    return None


def _turn(resource: str) -> tuple[int, str]:
    return _RESOURCES.index(resource) if resource in _RESOURCES else len(_RESOURCES), resource


def _out_of(name: str, requested: int, used: int, capacity: int) -> Refusal:
    amounts = f"{name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Refusal(
        reason=f"OutOf{name}",
        message=f"Node didn't have enough resource: {amounts}",
        passing=requested <= capacity,
    )


def _place(pod: Pod, node: Node) -> Refusal | None:
    if matches_node(pod.spec, name=node.name, labels=node.labels):
        return None
    message = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    return Refusal(reason="NodeAffinity", message=message)


def _ports(pod: Pod, active: Sequence[Pod]) -> Refusal | None:
    """AD-5. Sidecars' ports are mapped, so they count."""
    wanted = list(_host_ports(pod))
    taken = [port for other in active for port in _host_ports(other)] if wanted else []
    if not any(_same_place(port, other) for port in wanted for other in taken):
        return None
    message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    return Refusal(reason="NodePorts", message=message, passing=True)


def _host_ports(pod: Pod) -> Iterable[ContainerPort]:
    sidecars = (container for container in pod.spec.init_containers if is_sidecar(container))
    return (port for container in (*pod.spec.containers, *sidecars) for port in container.ports if port.host_port > 0)


def _same_place(left: ContainerPort, right: ContainerPort) -> bool:
    if (left.protocol, left.host_port) != (right.protocol, right.host_port):
        return False
    return left.host_ip == right.host_ip or left.host_ip in _ANY_ADDRESS or right.host_ip in _ANY_ADDRESS


def _app_armor(pod: Pod, node: Node) -> Refusal | None:
    if node.app_armor or not _wants_a_profile(pod):
        return None
    message = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    return Refusal(reason="AppArmor", message=message)


def _wants_a_profile(pod: Pod) -> bool:
    """Some AppArmor profile other than none: a container's, an annotation's, or the pod's."""
    spec = pod.spec
    contexts = [spec.security_context, *(c.security_context for c in (*spec.containers, *spec.init_containers))]
    profiles = [context.app_armor_profile for context in contexts if context is not None]
    profiles += [
        profile_of_annotation(value)
        for key, value in pod.metadata.annotations.items()
        if key.startswith(ANNOTATION_PREFIX)
    ]
    return any(profile is not None and profile.type != "Unconfined" for profile in profiles)


def _runtime_class(pod: Pod, node: Node) -> Refusal | None:
    """D-9. (The kubelet would not look at the class of a pod from a file.)"""
    name = pod.spec.runtime_class_name
    if not name or name in node.runtime_classes:
        return None
    known = ", ".join(sorted(node.runtime_classes)) or "none"
    return Refusal(
        reason="RuntimeClassNotFound",
        message=f'RuntimeClass "{name}" not found; runtimeClasses in the configuration names: {known}',
    )


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
