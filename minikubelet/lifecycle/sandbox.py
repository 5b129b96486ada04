"""Section 3 of LC: is a new sandbox needed, and what becomes of the pod if it is?"""

from __future__ import annotations

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.memory import Memory
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.lifecycle.restart import record_restarts


def new_attempt(pod: Pod, observed: Observed) -> int | None:
    """The attempt of the sandbox to be made, or None if the present one serves (LC 3.1)."""
    if not observed.sandboxes:
        return 0
    newest = observed.sandboxes[0]
    usable = (
        sum(sandbox.ready for sandbox in observed.sandboxes) == 1
        and newest.ready
        and newest.host_network == pod.spec.host_network
        and (newest.host_network or bool(newest.ips))
    )
    return None if usable else newest.attempt + 1


def candidates(pod: Pod, observed: Observed, memory: Memory) -> list[Container]:
    """The regular containers that a new sandbox would run: all but those that ended and do not restart (LC 3.2.2)."""
    found = []
    for container in pod.spec.containers:
        record = observed.newest(container.name)
        if record is None or record.state is not RecordState.EXITED or record_restarts(pod, container, record, memory):
            found.append(container)
    return found


def replaces(pod: Pod, observed: Observed, memory: Memory, attempt: int) -> bool:
    """Whether a new sandbox is made, given that one is needed; if not, the pod ends (LC 3.2.1 to 3.2.4).

    Without a candidate every regular container has ended for good, so there is nothing to make one for.
    """
    if pod.spec.restart_policy == "Never" and attempt != 0 and observed.containers:
        return False
    return bool(candidates(pod, observed, memory))
