"""Which pods are not as they should be, and why, a line each: for `minikubelet status`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from minikubelet.cli.printers import summary
from minikubelet.cli.views import Event, Pod

#: Waiting is no news while a pod begins.
_BEGINNING = ("", "PodInitializing", "ContainerCreating")


def unwell(pods: Iterable[Pod], events: Sequence[Event], *, now: datetime) -> list[str]:
    """`events` in order of the last time of each. A pod that ends, or has ended well, or is about to begin is well."""
    found = []
    for pod in sorted(pods, key=lambda it: (it.metadata.namespace, it.metadata.name)):
        if pod.metadata.deletion_timestamp is None and pod.status.phase != "Succeeded" and (why := _why(pod, events)):
            status = summary(pod, now=now).status
            found.append(f"{pod.metadata.namespace}/{pod.metadata.name}: {status}: {' '.join(why.split())}")
    return found


def _why(pod: Pod, events: Sequence[Event]) -> str:
    status = pod.status
    entries = (*status.init_container_statuses, *status.container_statuses)
    for entry in entries:
        if (waits := entry.state.waiting) is not None and waits.reason not in _BEGINNING:
            return f"{entry.name}: {waits.message or waits.reason}"
    if status.message or status.reason:
        return status.message or status.reason
    for entry in entries:
        if status.phase == "Failed" and (ended := entry.state.terminated) is not None and ended.exit_code:
            return f"{entry.name} ended with exit code {ended.exit_code}"
    if status.phase == "Failed":
        return "it has failed"
    if status.phase == "Pending":
        warnings = (
            it for it in reversed(events) if it.type == "Warning" and it.involved_object.uid == pod.metadata.uid
        )
        last = next(warnings, None)
        return f"{last.reason}: {last.message}" if last is not None else ""
    ready = next((it for it in status.conditions if it.type == "Ready"), None)
    return (ready.message or ready.reason or "not ready") if ready is not None and ready.status != "True" else ""
