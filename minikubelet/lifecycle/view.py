"""Small questions about a pod's spec and records that every module of this room asks.

No decision is made here: only names for what the specification's section 0 defines.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.lifecycle.memory import FROM_OUTSIDE, HookState, Memory, ProbeResult, ProbeResults
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState

#: What the published status puts before a container id.
ID_SCHEME = "containerd://"

NO_RESULTS = ProbeResults()

#: Seconds. People write the largest number there is for "never"; gRPC, containerd (which counts in nanoseconds) and
#: the calendar do not go that far.
LONGEST_GRACE = 2**31 - 1


def bare_id(published: str) -> str:
    """The runtime's id of a published `containerID`."""
    return published.removeprefix(ID_SCHEME)


def pod_label(pod: Pod) -> str:
    """`name_namespace(uid)`, as the kubelet's messages name a pod."""
    meta = pod.metadata
    return f"{meta.name}_{meta.namespace}({meta.uid})"


def all_containers(pod: Pod) -> Iterator[Container]:
    """Init entries, then regular containers, in spec order."""
    yield from pod.spec.init_containers
    yield from pod.spec.containers


def sidecar_names(pod: Pod) -> list[str]:
    return [c.name for c in pod.spec.init_containers if is_sidecar(c)]


def find(pod: Pod, name: str) -> Container | None:
    return next((c for c in all_containers(pod) if c.name == name), None)


def is_init_entry(pod: Pod, name: str) -> bool:
    return any(c.name == name for c in pod.spec.init_containers)


def start_key(name: str) -> str:
    """The key of `actions.StartContainer` for this container."""
    return f"start:{name}"


def starting(memory: Memory, name: str) -> bool:
    """Whether a start of this container was handed out and has not come back."""
    return start_key(name) in memory.in_flight


def bringing_up(memory: Memory) -> bool:
    """Whether a sandbox or a container is being made, so that the runtime may show one that we know nothing of."""
    return any(key == "sandbox" or key.startswith("start:") for key in memory.in_flight)


def stop_in_flight(memory: Memory, container_id: str) -> bool:
    return any(key.startswith(f"stop:{container_id}:") for key in memory.in_flight)


def is_alive(record: ObservedContainer) -> bool:
    """Has, or may have, a process that must be stopped."""
    return record.state in (RecordState.RUNNING, RecordState.UNKNOWN)


def alive(observed: Observed) -> list[ObservedContainer]:
    return [record for record in observed.containers if is_alive(record)]


def failed(record: ObservedContainer) -> bool:
    """LC 4.1: an exit that counts as a failure (an OOM kill does whatever the code)."""
    return record.exit_code != 0 or record.reason == "OOMKilled"


def results(memory: Memory, container_id: str) -> ProbeResults:
    return memory.probes.get(container_id, NO_RESULTS)


def started_up(container: Container, record: ObservedContainer, memory: Memory) -> bool:
    """PH 5: whether the startup probe of a running container has succeeded, or there is none."""
    return container.startup_probe is None or results(memory, record.id).startup is ProbeResult.SUCCESS


def hook_holds(container: Container, record: ObservedContainer, memory: Memory) -> bool:
    """Whether this running container is not to be shown or counted yet: its postStart hook has not ended well.

    A hook's state is kept by container id once the start has come back, by name before that.
    """
    if container.lifecycle is None or container.lifecycle.post_start is None:
        return False
    state = memory.post_start.get(record.id) or memory.post_start.get(record.name)
    return state in (HookState.PENDING, HookState.FAILED)


def hidden(pod: Pod, record: ObservedContainer, memory: Memory) -> bool:
    """PH 7.1: until its start has come to its end, a record does not show in the published status.

    In a pod that is being stopped all that runs is shown: its hook was abandoned, and the process must be seen to end.
    """
    if record.state is RecordState.CREATED:
        return starting(memory, record.name)
    if memory.stopping is not None:
        return False
    container = find(pod, record.name)
    return record.state is RecordState.RUNNING and container is not None and hook_holds(container, record, memory)


def active(observed: Observed, name: str) -> ObservedContainer | None:
    """The newest record of a name in the newest sandbox, ready or not."""
    if not observed.sandboxes:
        return None
    sandbox = observed.sandboxes[0].id
    return next((r for r in observed.containers if r.name == name and r.sandbox_id == sandbox), None)


def newest_exited(observed: Observed, name: str) -> ObservedContainer | None:
    return next((r for r in observed.containers if r.name == name and r.state is RecordState.EXITED), None)


def ended_at(record: ObservedContainer, memory: Memory) -> float:
    """When an exited container ended, for waits that count from there: never a moment that is still to come."""
    return memory.ended_by.get(record.id, max(record.finished_at, record.started_at, record.created_at))


def usable_grace(seconds: int) -> int:
    """What a manifest asks for, in bounds: a negative value counts as 1 (PH 2.3), an endless one as `LONGEST_GRACE`."""
    return min(seconds, LONGEST_GRACE) if seconds >= 0 else 1


def spec_grace(pod: Pod) -> int:
    """Seconds (LC 10.1.4)."""
    return usable_grace(pod.spec.termination_grace_period_seconds)


def sidecars_come_back(pod: Pod, observed: Observed, memory: Memory) -> bool:
    """README 6: in a stop that came from outside, as long as a regular container still runs."""
    if memory.stopping is None or memory.stopping.cause not in FROM_OUTSIDE:
        return False
    mains = (observed.newest(container.name) for container in pod.spec.containers)
    return any(record is not None and is_alive(record) for record in mains)


def pre_stop_of(pod: Pod, name: str) -> bool:
    """Whether a container has a preStop hook."""
    container = find(pod, name)
    return container is not None and container.lifecycle is not None and container.lifecycle.pre_stop is not None
