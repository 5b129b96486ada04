"""Section 4 of LC: the walk over the init containers and sidecars.

Called by `plan` when the sandbox is fine. It goes from the last entry to the first, because the highest entry with a
record tells how far the sequence has come.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.definition import container_hash
from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.lifecycle.memory import KillReason, Memory, ProbeResult
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.restart import effective_policy, record_restarts
from minikubelet.lifecycle.view import (
    active,
    failed,
    hook_holds,
    results,
    spec_grace,
    started_up,
    starting,
    usable_grace,
)

_DONE = frozenset[str]()


class KillOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One container that is to be stopped, and why. `grace` in seconds, preStop included."""

    record: ObservedContainer
    reason: KillReason
    message: str
    grace: int


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """`initialized`: the regular containers may be looked at. `broken`: an init container failed for good."""

    init_to_start: tuple[int, ...]
    to_kill: tuple[KillOrder, ...]
    initialized: bool
    broken: bool = False


def changed(container: Container, record: ObservedContainer) -> bool:
    """LC 4.5. A record without a hash is nobody's to judge."""
    return bool(record.hash) and record.hash != container_hash(container)


def probe_grace(pod: Pod, container: Container, reason: KillReason) -> int:
    """LC 10.1, rows 3 and 4."""
    probe = container.liveness_probe if reason is KillReason.LIVENESS else container.startup_probe
    own = probe.termination_grace_period_seconds if probe is not None else None
    return spec_grace(pod) if own is None else usable_grace(own)


def was_initialized(pod: Pod, observed: Observed, memory: Memory) -> bool:
    """Whether the init sequence has come to its end once in the present sandbox.

    Regular containers are only started after that, so a record of one in this sandbox proves it, whatever its state.
    (The kubelet only believes a running one, LC 4.1, hence its LC 4.2.5 and the re-run in LC 4.4.)
    """
    if not observed.sandboxes:
        return False
    ran = any(active(observed, container.name) is not None for container in pod.spec.containers)
    return ran or observed.sandboxes[0].id in memory.initialized


def walk(pod: Pod, observed: Observed, memory: Memory) -> Walk:
    """LC 4.1."""
    entries = pod.spec.init_containers
    last = len(entries) - 1
    done = memory.init_done.get(observed.sandboxes[0].id, _DONE) if observed.sandboxes else _DONE
    initialized = previous = was_initialized(pod, observed, memory) or not entries
    start: set[int] = set()
    kills: list[KillOrder] = []

    def kill(index: int, record: ObservedContainer, reason: KillReason, message: str, grace: int | None = None) -> None:
        kills.append(
            KillOrder(record=record, reason=reason, message=message, grace=spec_grace(pod) if grace is None else grace)
        )
        start.add(index)

    def finished(index: int) -> None:
        nonlocal initialized
        if index == last:
            initialized = True
        else:
            start.add(index + 1)

    for index in range(last, -1, -1):
        entry = entries[index]
        record = active(observed, entry.name)
        sidecar = is_sidecar(entry)
        if record is None:
            if sidecar and previous:
                start.add(index)
            elif not sidecar and not previous and entry.name in done:
                finished(index)  # its record is gone, but we remember (README 5)
                previous = True
            continue
        if previous and not sidecar:
            continue
        if record.state is RecordState.CREATED:
            start.add(index)
        elif record.state is RecordState.UNKNOWN:
            if not sidecar and effective_policy(pod, entry) == "Never":
                return Walk(init_to_start=(), to_kill=tuple(kills), initialized=False, broken=True)
            kill(
                index, record, KillReason.UNKNOWN, 'Init container is in "unknown" state, try killing it before restart'
            )
        elif record.state is RecordState.EXITED:
            if sidecar:
                start.add(index)
            elif not failed(record):
                finished(index)
            elif record_restarts(pod, entry, record, memory):
                start.add(index)
            else:
                return Walk(init_to_start=(), to_kill=tuple(kills), initialized=False, broken=True)
        elif sidecar and record.id not in memory.kills:
            startup = results(memory, record.id).startup
            if entry.startup_probe is not None and startup is ProbeResult.FAILURE:
                message = f"Init container {entry.name} failed startup probe"
                kill(index, record, KillReason.STARTUP, message, probe_grace(pod, entry, KillReason.STARTUP))
            elif started_up(entry, record, memory):
                if not hook_holds(entry, record, memory) and not starting(memory, entry.name):
                    if index == last:
                        initialized = True
                    elif not previous:
                        start.add(index + 1)
                if changed(entry, record):
                    kill(index, record, KillReason.CHANGED, f"Init container {entry.name} definition changed")
                elif entry.liveness_probe is not None and results(memory, record.id).liveness is ProbeResult.FAILURE:
                    message = f"Init container {entry.name} failed liveness probe"
                    kill(index, record, KillReason.LIVENESS, message, probe_grace(pod, entry, KillReason.LIVENESS))
        previous = True
    if entries and not previous:
        start.add(0)
    return Walk(init_to_start=tuple(sorted(start)), to_kill=tuple(kills), initialized=initialized)
