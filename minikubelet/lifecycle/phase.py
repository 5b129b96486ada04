"""LC 11.4: the phase of a pod, counted over the container statuses that are about to be published."""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.api.status import ContainerStatus, StateTerminated
from minikubelet.lifecycle.final import Statuses
from minikubelet.lifecycle.memory import PASSING, Memory
from minikubelet.lifecycle.records import Observed
from minikubelet.lifecycle.restart import restarts_after
from minikubelet.lifecycle.view import active, bare_id

FINAL = ("Succeeded", "Failed")
#: Waiting reason of a container between RestartAllContainers and its new record (LC 5.4.4).
RESTARTING_ALL = "RestartingAllContainers"


class _Count(msgspec.Struct):
    pending_init: int = 0
    fatal_init: int = 0
    pending_sidecar: int = 0
    waiting: int = 0
    running: int = 0
    stopped: int = 0
    succeeded: int = 0
    final: int = 0


def phase(pod: Pod, found: Statuses, observed: Observed, memory: Memory) -> str:
    if memory.deadline_exceeded:
        return "Failed"
    count = _Count()
    for container, status in zip(pod.spec.init_containers, found.inits, strict=True):
        if is_sidecar(container):
            _count_sidecar(count, status)
        else:
            gone = active(observed, container.name) is None  # what it did is forgotten with its record
            _count_init(count, pod, container, status, memory=memory, gone=gone)
    for container, status in zip(pod.spec.containers, found.mains, strict=True):
        _count_main(count, pod, container, status, memory)
    main_ran = any(active(observed, container.name) is not None for container in pod.spec.containers)
    if count.fatal_init and ends(memory):
        return "Failed"
    if count.pending_init or (count.pending_sidecar and not main_ran) or count.waiting:
        return "Pending"
    if count.running or count.final < count.stopped or not ends(memory):
        return "Running"
    return "Succeeded" if count.succeeded == count.stopped else "Failed"


def ends(memory: Memory) -> bool:
    """Whether the pod is on its way to its end, so that its phase may become final."""
    return memory.stopping is not None and memory.stopping.cause not in PASSING


def forced_phase(mains: tuple[ContainerStatus, ...]) -> str:
    """LC 11.6.4: the phase of a pod that has been stopped before it came to an end by itself (also README 8)."""
    ends = [status.state.terminated for status in mains]
    return "Succeeded" if all(end is not None and end.exit_code == 0 for end in ends) else "Failed"


def _ended(status: ContainerStatus) -> StateTerminated | None:
    """The terminated state that counts: the present one, or the last one while it waits to run again."""
    if status.state.waiting is not None and status.state.waiting.reason == RESTARTING_ALL:
        return None
    return status.state.terminated or (None if status.state.running is not None else status.last_state.terminated)


def _count_init(
    count: _Count, pod: Pod, container: Container, status: ContainerStatus, *, memory: Memory, gone: bool
) -> None:
    end = _ended(status)
    if end is None:
        count.pending_init += 1
        return
    kill = memory.kills.get(bare_id(end.container_id))
    if end.exit_code != 0 and not gone and not restarts_after(pod, container, end.exit_code, kill):
        count.fatal_init += 1


def _count_sidecar(count: _Count, status: ContainerStatus) -> None:
    if status.state.running is not None:
        count.running += 1
        count.pending_sidecar += not status.started
    elif _ended(status) is None:
        count.waiting += 1
        count.pending_sidecar += 1


def _count_main(count: _Count, pod: Pod, container: Container, status: ContainerStatus, memory: Memory) -> None:
    end = _ended(status)
    if status.state.running is not None:
        count.running += 1
    elif end is None:
        count.waiting += 1
    else:
        count.stopped += 1
        count.final += not restarts_after(pod, container, end.exit_code, memory.kills.get(bare_id(end.container_id)))
        count.succeeded += status.state.terminated is not None and end.exit_code == 0
