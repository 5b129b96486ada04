"""Sections 3 to 5 of LC: what a pod needs next, in the form of the vectors of its section 16.

A plan looks at what is so, not at what has been asked for already: `decide` leaves out what is in flight or held back.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.memory import KillReason, Memory, ProbeResult, StopCause
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.restart import effective_policy, record_restarts, restart_all_triggers, restarts_after
from minikubelet.lifecycle.sandbox import candidates, new_attempt, replaces
from minikubelet.lifecycle.view import results, spec_grace
from minikubelet.lifecycle.walk import KillOrder, changed, probe_grace, walk


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """LC 1.2. Indexes are positions in `initContainers` and in `containers`."""

    kill_pod: bool = False
    #: Why the whole pod is killed; None if it is not.
    cause: StopCause | None = None
    create_sandbox: bool = False
    attempt: int = 0
    init_to_start: tuple[int, ...] = ()
    to_start: tuple[int, ...] = ()
    to_kill: tuple[KillOrder, ...] = ()
    #: Records whose exit restarts all containers (LC 5.4).
    to_reset: tuple[ObservedContainer, ...] = ()
    #: All init entries have completed or started once in this sandbox.
    initialized: bool = False


def plan(pod: Pod, observed: Observed, memory: Memory) -> Plan:
    attempt = new_attempt(pod, observed)
    if attempt is not None:
        return _plan_sandbox(pod, observed, memory, attempt)
    present = observed.sandboxes[0].attempt
    triggers = restart_all_triggers(pod, observed)
    if triggers:
        return Plan(cause=StopCause.RESTART_ALL, attempt=present, to_reset=tuple(triggers))
    init = walk(pod, observed, memory)
    if init.broken:
        return Plan(kill_pod=True, cause=StopCause.INIT_FAILED, attempt=present, to_kill=init.to_kill)
    if not init.initialized:
        return Plan(attempt=present, init_to_start=init.init_to_start, to_kill=init.to_kill)
    keep, start, kills = _regular(pod, observed, memory)
    complete = not keep and not start
    return Plan(
        kill_pod=complete,
        cause=StopCause.COMPLETED if complete else None,
        attempt=present,
        init_to_start=() if complete else init.init_to_start,
        to_start=start,
        to_kill=init.to_kill + kills,
        initialized=True,
    )


def _plan_sandbox(pod: Pod, observed: Observed, memory: Memory, attempt: int) -> Plan:
    """LC 3.2."""
    if not replaces(pod, observed, memory, attempt):
        return Plan(kill_pod=True, cause=StopCause.COMPLETED, attempt=attempt)
    to_start: tuple[int, ...] = ()
    if not pod.spec.init_containers:
        names = {container.name for container in candidates(pod, observed, memory)}
        to_start = tuple(i for i, container in enumerate(pod.spec.containers) if container.name in names)
    return Plan(
        kill_pod=True,
        cause=StopCause.SANDBOX,
        create_sandbox=True,
        attempt=attempt,
        init_to_start=(0,) if pod.spec.init_containers else (),
        to_start=to_start,
    )


def _regular(pod: Pod, observed: Observed, memory: Memory) -> tuple[bool, tuple[int, ...], tuple[KillOrder, ...]]:
    """LC 5.1: whether any is kept, which are to be started, which are to be killed."""
    keep = False
    start: list[int] = []
    kills: list[KillOrder] = []
    for index, container in enumerate(pod.spec.containers):
        record = observed.newest(container.name)
        if record is None or record.state is RecordState.CREATED:
            start.append(index)
        elif record.state is RecordState.EXITED:
            if record_restarts(pod, container, record, memory):
                start.append(index)
        elif record.id in memory.kills:
            # Being killed: what comes after it is known, except where its exit code will decide.
            kill = memory.kills[record.id]
            if kill.reason in (KillReason.POST_START, KillReason.POD):
                keep = True
            elif restarts_after(pod, container, 0, kill):
                start.append(index)
        else:
            order = _verdict(pod, container, record, memory)
            if order is None:
                keep = True
                continue
            kills.append(order)
            if order.reason in (KillReason.CHANGED, KillReason.UNKNOWN) or effective_policy(pod, container) != "Never":
                start.append(index)
    return keep, tuple(start), tuple(kills)


def _verdict(pod: Pod, container: Container, record: ObservedContainer, memory: Memory) -> KillOrder | None:
    """Why a regular container that runs must be killed, if it must. Liveness is looked at before startup."""
    grace = spec_grace(pod)
    if record.state is RecordState.UNKNOWN:
        message = 'Container is in "unknown" state, try killing it before restart'
        return KillOrder(record=record, reason=KillReason.UNKNOWN, message=message, grace=grace)
    if changed(container, record):
        message = f"Container {container.name} definition changed, will be restarted"
        return KillOrder(record=record, reason=KillReason.CHANGED, message=message, grace=grace)
    found = results(memory, record.id)
    if container.liveness_probe is not None and found.liveness is ProbeResult.FAILURE:
        reason, kind = KillReason.LIVENESS, "liveness"
    elif container.startup_probe is not None and found.startup is ProbeResult.FAILURE:
        reason, kind = KillReason.STARTUP, "startup"
    else:
        return None
    again = "" if effective_policy(pod, container) == "Never" else ", will be restarted"
    message = f"Container {container.name} failed {kind} probe{again}"
    return KillOrder(record=record, reason=reason, message=message, grace=probe_grace(pod, container, reason))
