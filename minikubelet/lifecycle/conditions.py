"""LC 11.5: a pod's conditions, in the kubelet's order."""

from __future__ import annotations

from minikubelet.api.pod import Pod, is_sidecar
from minikubelet.api.status import PodCondition, PodStatus
from minikubelet.lifecycle.final import Statuses
from minikubelet.lifecycle.memory import Memory, StopCause
from minikubelet.lifecycle.records import Observed
from minikubelet.lifecycle.restart import may_restart_all
from minikubelet.lifecycle.sandbox import new_attempt
from minikubelet.lifecycle.times import rfc3339


def conditions(
    pod: Pod, phase: str, found: Statuses, observed: Observed, memory: Memory, *, now: float
) -> tuple[PodCondition, ...]:
    """A transition time moves only when the condition's status does."""
    ready = _containers_ready(pod, phase, found)
    listed = [
        _condition("PodReadyToStartContainers", value=new_attempt(pod, observed) is None),
        _initialized(pod, phase, found, memory.status),
        _ready(pod, ready),
        ready,
        _condition("PodScheduled", value=True),
    ]
    if may_restart_all(pod):
        listed.append(_all_restarting(phase, memory))
    return tuple(_dated(condition, memory.status, now) for condition in listed)


def _condition(kind: str, *, value: bool, reason: str = "", message: str = "") -> PodCondition:
    return PodCondition(type=kind, status="True" if value else "False", reason=reason, message=message)


def _dated(condition: PodCondition, old: PodStatus | None, now: float) -> PodCondition:
    before = next((c for c in old.conditions if c.type == condition.type), None) if old is not None else None
    since = before.last_transition_time if before is not None and before.status == condition.status else rfc3339(now)
    return PodCondition(
        type=condition.type,
        status=condition.status,
        last_transition_time=since,
        reason=condition.reason,
        message=condition.message,
    )


def _initialized(
    pod: Pod,
    phase: str,
    found: Statuses,
    old: PodStatus | None,
) -> PodCondition:
    kind = "Initialized"
    if phase == "Succeeded":
        return _condition(kind, value=True, reason="PodCompleted")
    was = old is not None and any(c.type == kind and c.status == "True" for c in old.conditions)
    if was or any(status.state.running is not None or status.state.terminated is not None for status in found.mains):
        return _condition(kind, value=True)
    pairs = zip(pod.spec.init_containers, found.inits, strict=True)
    open_ = [s.name for c, s in pairs if not (s.started if is_sidecar(c) else s.ready)]
    if not open_:
        return _condition(kind, value=True)
    message = f"containers with incomplete status: [{' '.join(open_)}]"
    return _condition(kind, value=False, reason="ContainersNotInitialized", message=message)


def _containers_ready(pod: Pod, phase: str, found: Statuses) -> PodCondition:
    kind = "ContainersReady"
    if phase == "Succeeded":
        return _condition(kind, value=False, reason="PodCompleted")
    if phase == "Failed":
        return _condition(kind, value=False, reason="PodFailed")
    sidecars = [
        status for entry, status in zip(pod.spec.init_containers, found.inits, strict=True) if is_sidecar(entry)
    ]
    unready = [status.name for status in (*sidecars, *found.mains) if not status.ready]
    if not unready:
        return _condition(kind, value=True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return _condition(kind, value=False, reason="ContainersNotReady", message=message)


def _ready(pod: Pod, containers: PodCondition) -> PodCondition:
    if containers.status == "False":
        return _condition("Ready", value=False, reason=containers.reason, message=containers.message)
    # Nothing on one host sets the conditions that readiness gates name, so a gate is never open.
    missing = [
        f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.'
        for gate in pod.spec.readiness_gates
    ]
    if missing:
        return _condition("Ready", value=False, reason="ReadinessGatesNotReady", message=", ".join(missing))
    return _condition("Ready", value=True)


def _all_restarting(phase: str, memory: Memory) -> PodCondition:
    """LC 5.4.1: True from the exit that asks for it until all records are gone."""
    kind = "AllContainersRestarting"
    if phase == "Succeeded":
        return _condition(kind, value=False, reason="PodCompleted")
    if phase == "Failed":
        return _condition(kind, value=False, reason="PodFailed")
    if memory.stopping is None or memory.stopping.cause is not StopCause.RESTART_ALL:
        return _condition(kind, value=False)
    message = "container exited with restart policy rule"
    return _condition(kind, value=True, reason="RestartAllContainersStarted", message=message)
