"""What a container that has not started waits for, in words (README 7: every waiting state says it)."""

from __future__ import annotations

from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.lifecycle.sandbox import new_attempt
from minikubelet.lifecycle.view import active, failed, hook_holds, started_up, starting


def waits_for(pod: Pod, container: Container, observed: Observed, memory: Memory) -> str:
    """The message of its waiting state."""
    if memory.stopping is not None:
        return "not started: the pod is being stopped"
    if new_attempt(pod, observed) is not None:
        why = f": {memory.sandbox_hindered}" if memory.sandbox_hindered else ""
        return f"waiting for the pod sandbox{why}"
    record = active(observed, container.name)
    if record is not None and record.state is RecordState.RUNNING:
        return "waiting for its postStart hook to end"
    if starting(memory, container.name):
        return "its image is being made ready and the container created"
    return _gate(pod, container, observed, memory) or "about to be started"


def _gate(pod: Pod, container: Container, observed: Observed, memory: Memory) -> str | None:
    """The first earlier container that has not come far enough."""
    for entry in pod.spec.init_containers:
        if entry.name == container.name:
            return None
        record = active(observed, entry.name)
        kind = "sidecar" if is_sidecar(entry) else "init container"
        if record is None:
            done = observed.sandboxes[0].id if observed.sandboxes else ""
            if done in memory.initialized or entry.name in memory.init_done.get(done, ()):
                continue
            return f"waiting for {kind} {entry.name} to start"
        if is_sidecar(entry):
            if record.state is not RecordState.RUNNING:
                return f"waiting for sidecar {entry.name} to run"
            if not started_up(entry, record, memory):
                return f"waiting for the startup probe of sidecar {entry.name}"
            if hook_holds(entry, record, memory):
                return f"waiting for the postStart hook of sidecar {entry.name}"
        elif record.state is not RecordState.EXITED or failed(record):
            return f"waiting for init container {entry.name} to complete"
    mains = pod.spec.containers
    for earlier in mains[: mains.index(container)]:
        record = observed.newest(earlier.name)
        if starting(memory, earlier.name):
            return f"waiting for container {earlier.name} to be started"
        if record is not None and record.state is RecordState.RUNNING and hook_holds(earlier, record, memory):
            return f"waiting for the postStart hook of container {earlier.name}"
    return None
