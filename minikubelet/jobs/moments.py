"""Moments and numbers that a Job reads off a pod's status: when it finished, was ready, how often it restarted."""

from __future__ import annotations

from datetime import datetime

from minikubelet.api.pod import is_sidecar
from minikubelet.api.status import PodStatus
from minikubelet.store.job_records import PodRecord


def finish_time(pod: PodRecord) -> float:
    """When a pod finished, as far as can be told (JOBS 7.2)."""
    names = [each.name for each in pod.status.container_statuses]
    if pod.pod is not None:
        spec = pod.pod.spec
        names = [each.name for each in (*spec.containers, *(c for c in spec.init_containers if is_sidecar(c)))]
    if names and all(name in pod.finish_times for name in names):
        return max(pod.finish_times[name] for name in names)
    ready = _condition(pod.status, "Ready")
    if ready is not None and ready[0] != "True" and ready[1] is not None:
        return ready[1]
    return pod.created_at if pod.marked_at is None else pod.marked_at


def is_ready(pod: PodRecord) -> bool:
    ready = _condition(pod.status, "Ready")
    return ready is not None and ready[0] == "True"


def ready_since(pod: PodRecord) -> float:
    """Infinity for a pod that is not ready."""
    ready = _condition(pod.status, "Ready")
    return ready[1] if ready is not None and ready[0] == "True" and ready[1] is not None else float("inf")


def restarts(pod: PodRecord) -> int:
    """Of all containers and init containers, sidecars included (JOBS 7.4)."""
    return sum(each.restart_count for each in (*pod.status.container_statuses, *pod.status.init_container_statuses))


def most_restarts(pod: PodRecord) -> tuple[int, int]:
    """The greatest count of a regular container, and of a sidecar."""
    sidecars = set()
    if pod.pod is not None:
        sidecars = {each.name for each in pod.pod.spec.init_containers if is_sidecar(each)}
    regular = max((each.restart_count for each in pod.status.container_statuses), default=0)
    counts = [each.restart_count for each in pod.status.init_container_statuses if each.name in sidecars]
    return regular, max(counts, default=0)


def seconds(text: str | None) -> float | None:
    """RFC 3339 to unix seconds."""
    return None if not text else datetime.fromisoformat(text).timestamp()


def _condition(status: PodStatus, kind: str) -> tuple[str, float | None] | None:
    for condition in status.conditions:
        if condition.type == kind:
            return condition.status, seconds(condition.last_transition_time)
    return None
