"""LC 11.1 to 11.3: the status of a pod and of its containers, from the records and what was published before."""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.api.status import (
    ContainerState,
    ContainerStatus,
    PodIP,
    PodStatus,
    StateRunning,
    StateTerminated,
    StateWaiting,
)
from minikubelet.lifecycle.conditions import conditions
from minikubelet.lifecycle.final import Statuses, final_states
from minikubelet.lifecycle.memory import Memory, ProbeResult, StartError
from minikubelet.lifecycle.phase import FINAL, RESTARTING_ALL, ends, forced_phase, phase
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.restart import record_restarts
from minikubelet.lifecycle.stop import DEADLINE_MESSAGE
from minikubelet.lifecycle.times import rfc3339
from minikubelet.lifecycle.view import ID_SCHEME, active, hidden, is_init_entry, results, sidecars_come_back, started_up
from minikubelet.lifecycle.waiting import waits_for

#: Bytes of termination messages per pod, shared equally by its containers (TM-4).
MESSAGE_BYTES = 12288
_UNKNOWN = "ContainerStatusUnknown"
_LOST = "The container could not be located when the pod was deleted.  The container used to be Running"
_GONE = "The container could not be located when the pod was terminated"
_REMOVED_FOR_ALL = "The container is removed because RestartAllContainers in place"
_TREATED_AS_DONE = (
    "Unable to get init container status from container runtime and pod has been initialized,"
    " treat it as exited normally"
)


def pod_status(pod: Pod, observed: Observed, memory: Memory, *, now: float, qos_class: str) -> PodStatus:
    """What to publish now; `memory.status` is what was published before."""
    old = memory.status or PodStatus()
    found = Statuses(
        tuple(_container_status(pod, c, observed, memory, now=now) for c in pod.spec.init_containers),
        tuple(_container_status(pod, c, observed, memory, now=now) for c in pod.spec.containers),
    )
    word, reason, message = phase(pod, found, observed, memory), "", ""
    if memory.deadline_exceeded:
        reason, message = "DeadlineExceeded", DEADLINE_MESSAGE
    if old.phase in FINAL:
        word, reason, message = old.phase, old.reason, old.message
    if memory.stopped:
        found = final_states(found)
        if word not in FINAL:
            word = forced_phase(found.mains)
    ready = observed.ready_sandbox()
    ips = ready.ips if ready is not None and ready.ips else tuple(address.ip for address in old.pod_ips)
    return PodStatus(
        phase=word,
        conditions=conditions(pod, word, found, observed, memory, now=now),
        reason=reason,
        message=message,
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        start_time=rfc3339(memory.accepted_at),
        init_container_statuses=found.inits,
        container_statuses=tuple(sorted(found.mains, key=lambda status: status.name)),
        qos_class=qos_class,
    )


def terminated(record: ObservedContainer, *, share: int = MESSAGE_BYTES) -> ContainerState:
    """The state of a record that exited; its message is cut to `share` bytes (TM-4)."""
    end = StateTerminated(
        exit_code=record.exit_code,
        reason=record.reason,
        message=record.message.encode()[:share].decode(errors="ignore"),
        started_at=rfc3339(record.started_at) if record.started_at else None,
        finished_at=rfc3339(record.finished_at) if record.finished_at else None,
        container_id=ID_SCHEME + record.id,
    )
    return ContainerState(terminated=end)


def _without_record(reason: str, message: str, *, container_id: str = "") -> ContainerState:
    end = StateTerminated(exit_code=137, reason=reason, message=message, container_id=container_id)
    return ContainerState(terminated=end)


def _container_status(
    pod: Pod, container: Container, observed: Observed, memory: Memory, *, now: float
) -> ContainerStatus:
    old = _old(memory, container.name)
    mine = [record for record in observed.containers if record.name == container.name]
    shown = [record for record in mine if not hidden(pod, record, memory)]
    status = _start_value(pod, container, observed, memory, old)
    if shown:
        share = MESSAGE_BYTES // (len(pod.spec.containers) + len(pod.spec.init_containers))
        status = _from_records(container, shown, old, share=share)
    elif container.name in memory.restarting_all:
        lost = _without_record(RESTARTING_ALL, _REMOVED_FOR_ALL)
        state = ContainerState(waiting=StateWaiting(reason=RESTARTING_ALL, message=_REMOVED_FOR_ALL))
        status = ContainerStatus(
            name=container.name, state=state, last_state=lost, restart_count=old.restart_count, image=container.image
        )
    elif not mine and old.state.running is not None and status.last_state == ContainerState():
        status = msgspec.structs.replace(
            status, last_state=_without_record(_UNKNOWN, _LOST), restart_count=old.restart_count + 1
        )
    if not mine and status.state.waiting is not None and _skipped(pod, container, observed):
        done = StateTerminated(exit_code=0, reason="Completed", message=_TREATED_AS_DONE)
        status = msgspec.structs.replace(status, state=ContainerState(terminated=done))
    newest = shown[0] if shown else None
    status = _with_start_error(pod, container, newest, status, observed=observed, memory=memory, now=now)
    return _with_readiness(pod, container, newest, memory, status)


def _old(memory: Memory, name: str) -> ContainerStatus:
    if memory.status is not None:
        for status in (*memory.status.init_container_statuses, *memory.status.container_statuses):
            if status.name == name:
                return status
    return ContainerStatus(name=name)


def _start_value(
    pod: Pod, container: Container, observed: Observed, memory: Memory, old: ContainerStatus
) -> ContainerStatus:
    """LC 11.2.1."""
    if old.state.terminated is not None:
        return msgspec.structs.replace(old, ready=False, started=False)
    reason = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    state = StateWaiting(reason=reason, message=waits_for(pod, container, observed, memory))
    return ContainerStatus(
        name=container.name,
        state=ContainerState(waiting=state),
        last_state=old.last_state,
        restart_count=old.restart_count,
        image=container.image,
    )


def _from_records(
    container: Container, shown: list[ObservedContainer], old: ContainerStatus, *, share: int
) -> ContainerStatus:
    """LC 11.2.3 and 11.2.4."""
    record = shown[0]
    container_id = ID_SCHEME + record.id
    count = max(record.restart_count, old.restart_count)
    if record.state is RecordState.RUNNING:
        state = ContainerState(running=StateRunning(started_at=rfc3339(record.started_at)))
        if old.state.terminated is not None and old.container_id != container_id and count <= old.restart_count:
            count = old.restart_count + 1
    elif record.state is RecordState.EXITED:
        state = terminated(record, share=share)
    elif record.state is RecordState.CREATED:
        state = ContainerState(waiting=StateWaiting(message="created, but not started"))
    elif old.state.running is not None:
        state = _without_record(_UNKNOWN, _GONE, container_id=container_id)
        count = old.restart_count + 1
    elif old.state.terminated is not None and old.container_id == container_id:
        state = old.state
    else:
        state = ContainerState(waiting=StateWaiting(message="the runtime does not know its state"))
    earlier = next((other for other in shown[1:] if other.state is RecordState.EXITED), None)
    if earlier is not None:
        last = terminated(earlier, share=share)
    elif old.container_id not in ("", container_id) and old.state.terminated is not None:
        last = ContainerState(terminated=old.state.terminated)
    else:
        last = old.last_state
    return ContainerStatus(
        name=container.name,
        state=state,
        last_state=last,
        restart_count=count,
        image=record.image or container.image,
        image_id=record.image_id,
        container_id=container_id,
    )


def _skipped(pod: Pod, container: Container, observed: Observed) -> bool:
    """LC 11.2.5: an init container without record in a pod whose regular containers have run."""
    if is_sidecar(container) or not is_init_entry(pod, container.name):
        return False
    records = (active(observed, main.name) for main in pod.spec.containers)
    return any(record is not None and record.state is not RecordState.UNKNOWN for record in records)


def _with_start_error(
    pod: Pod,
    container: Container,
    record: ObservedContainer | None,
    status: ContainerStatus,
    *,
    observed: Observed,
    memory: Memory,
    now: float,
) -> ContainerStatus:
    """LC 11.2.6: why the last start failed, if another one is to come."""
    error = memory.start_errors.get(container.name)
    if error is None or (record is not None and not _starts_again(pod, container, record, observed, memory)):
        return status
    last = status.last_state
    if status.state.terminated is not None:
        last = ContainerState(terminated=status.state.terminated)
    if record is None:
        status = msgspec.structs.replace(status, image=container.image, image_id="", container_id="")
    return msgspec.structs.replace(status, state=ContainerState(waiting=_words(error, now)), last_state=last)


def _starts_again(
    pod: Pod, container: Container, record: ObservedContainer, observed: Observed, memory: Memory
) -> bool:
    if record.state is not RecordState.EXITED:
        return record.state is not RecordState.RUNNING
    entry = is_init_entry(pod, container.name)
    revived = entry and is_sidecar(container) and sidecars_come_back(pod, observed, memory)
    if (ends(memory) and not revived) or (entry and record.exit_code == 0):
        return False
    return record_restarts(pod, container, record, memory)


def _words(error: StartError, now: float) -> StateWaiting:
    if error.later_reason and now >= error.later_at:
        return StateWaiting(reason=error.later_reason, message=error.later_message)
    return StateWaiting(reason=error.reason, message=error.message)


def _with_readiness(
    pod: Pod, container: Container, record: ObservedContainer | None, memory: Memory, status: ContainerStatus
) -> ContainerStatus:
    """LC 11.3. A result belongs to one container id (README 4)."""
    runs = status.state.running is not None and record is not None
    if is_init_entry(pod, container.name) and not is_sidecar(container):
        end = status.state.terminated
        return msgspec.structs.replace(status, started=runs, ready=end is not None and end.exit_code == 0)
    if not runs or record is None or not started_up(container, record, memory):
        return msgspec.structs.replace(status, started=False, ready=False)
    ready = container.readiness_probe is None or results(memory, record.id).readiness is ProbeResult.SUCCESS
    return msgspec.structs.replace(status, started=True, ready=ready)
