"""Objects to table rows, as kubectl shows them (tables.md). Pure; `cli.get` lays the rows out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from minikubelet.cli import ages
from minikubelet.cli.views import ContainerStatus, Event, Pod

NONE = "<none>"
POD_COLUMNS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
POD_WIDE_COLUMNS = (*POD_COLUMNS, "IP", "NODE", "NOMINATED NODE", "READINESS GATES")
EVENT_COLUMNS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
EVENT_WIDE_COLUMNS = (
    "LAST SEEN",
    "TYPE",
    "REASON",
    "OBJECT",
    "SUBOBJECT",
    "SOURCE",
    "MESSAGE",
    "FIRST SEEN",
    "COUNT",
    "NAME",
)

_NEVER = datetime.min.replace(tzinfo=UTC)


class _Restarts:
    """A sum of restarts and the newest end of a previous run among those added."""

    def __init__(self) -> None:
        self.count = 0
        self.last = _NEVER

    def add(self, status: ContainerStatus) -> None:
        self.count += status.restart_count
        if status.last_state.terminated is not None:
            self.last = max(self.last, ages.parse(status.last_state.terminated.finished_at) or _NEVER)

    def show(self, now: datetime) -> str:
        if self.count == 0 or self.last == _NEVER:
            return str(self.count)
        return f"{self.count} ({ages.duration((now - self.last).total_seconds())} ago)"


class PodSummary(NamedTuple):
    ready: int
    total: int
    status: str
    restarts: str


def summary(pod: Pod, *, now: datetime) -> PodSummary:
    """READY, STATUS and RESTARTS of a pod: the walk of tables.md, steps 1 to 4."""
    sidecars = {entry.name for entry in pod.spec.init_containers if entry.restart_policy == "Always"}
    conditions = {condition.type: condition.status for condition in pod.status.conditions}
    status = pod.status.reason or pod.status.phase
    ready = 0
    restarts, of_sidecars = _Restarts(), _Restarts()

    initializing = False
    for index, entry in enumerate(pod.status.init_container_statuses):
        sidecar = entry.name in sidecars
        restarts.add(entry)
        if sidecar:
            of_sidecars.add(entry)
        terminated, waiting = entry.state.terminated, entry.state.waiting
        if terminated is not None and terminated.exit_code == 0:
            continue
        if sidecar and entry.started:
            ready += entry.ready
            continue
        if terminated is not None:
            status = "Init:" + _ended(terminated.reason, terminated.signal, terminated.exit_code)
        elif waiting is not None and waiting.reason not in ("", "PodInitializing"):
            status = "Init:" + waiting.reason
        else:
            status = f"Init:{index}/{len(pod.spec.init_containers)}"
        initializing = True
        break

    if not initializing or conditions.get("Initialized") == "True":
        restarts = of_sidecars
        running, error = False, ""
        for entry in reversed(pod.status.container_statuses):
            restarts.add(entry)
            if entry.state.waiting is not None and entry.state.waiting.reason:
                status = entry.state.waiting.reason
            elif (ended := entry.state.terminated) is not None:
                status = _ended(ended.reason, ended.signal, ended.exit_code)
                if ended.exit_code != 0:
                    error = status
            elif entry.ready and entry.state.running is not None:
                ready += 1
                running = True
        if status == "Completed":
            if running and conditions.get("Ready") == "True":
                status = "Running"
            elif error:
                status = error
            elif running:
                status = "NotReady"

    if pod.metadata.deletion_timestamp is not None and pod.status.phase not in ("Succeeded", "Failed"):
        status = "Terminating"
    return PodSummary(ready, len(pod.spec.containers) + len(sidecars), status, restarts.show(now))


def pod_row(pod: Pod, *, now: datetime, wide: bool) -> tuple[str, ...]:
    it = summary(pod, now=now)
    created = ages.age(pod.metadata.creation_timestamp, now=now)
    row = (pod.metadata.name, f"{it.ready}/{it.total}", it.status, it.restarts, created)
    if not wide:
        return row
    ip = pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip
    return (*row, ip or NONE, pod.spec.node_name or NONE, pod.status.nominated_node_name or NONE, _gates(pod))


def event_row(event: Event, *, now: datetime, wide: bool) -> tuple[str, ...]:
    first = ages.age(event.first_timestamp, now=now)
    last = ages.age(event.last_timestamp, now=now) if event.last_timestamp else first
    about = f"{event.involved_object.kind.lower()}/{event.involved_object.name}"
    message = event.message.strip()
    if not wide:
        return (last, event.type, event.reason, about, message)
    source = ", ".join(filter(None, (event.source.component, event.source.host)))
    path = event.involved_object.field_path
    count, name = str(event.count), event.metadata.name
    return (last, event.type, event.reason, about, path, source, message, first, count, name)


def _ended(reason: str, signal: int, exit_code: int) -> str:
    return reason or (f"Signal:{signal}" if signal else f"ExitCode:{exit_code}")


def _gates(pod: Pod) -> str:
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    if not gates:
        return NONE
    true = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"
