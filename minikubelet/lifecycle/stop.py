"""Section 10 of LC, as the project amends it: how containers are stopped, one alone or all of a pod.

Two rules the kubelet does not have: sidecars are signalled strictly in reverse order, also when one between them is
down; and whatever still runs when the grace is over is signalled then, so a stop never takes more than grace + 2 s.
`memory.kills` says which containers are being stopped and since when; `memory.stopping` is the pod-wide stop.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import RunPreStop, StopContainer
from minikubelet.lifecycle.draft import Draft
from minikubelet.lifecycle.memory import REQUESTED, HookState, Kill, KillReason, Memory, StopCause, Stopping
from minikubelet.lifecycle.records import ObservedContainer
from minikubelet.lifecycle.view import (
    alive,
    all_containers,
    find,
    pre_stop_of,
    sidecar_names,
    spec_grace,
    starting,
    stop_in_flight,
)
from minikubelet.lifecycle.walk import KillOrder

#: Seconds between the stop signal and SIGKILL that every container gets (LC 10.3.3).
MINIMUM_GRACE = 2

SANDBOX_CHANGED = "Pod sandbox changed, it will be killed and re-created."
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


def grace_of(pod: Pod, cause: StopCause) -> int:
    """Seconds a pod-wide stop may take (LC 10.1, 10.2, PH 7.3)."""
    if cause is StopCause.RESTART_ALL:
        return 0
    return max(spec_grace(pod), 1) if cause in REQUESTED else spec_grace(pod)


def stop_requested(memory: Memory, *, cause: StopCause, grace: int, now: float) -> Memory:
    """The pod-wide stop begins, or the one under way goes on for this cause; its grace only ever shrinks (LC 10.2).

    A pod that is being removed stays so.
    """
    running = memory.stopping
    if running is None:
        return msgspec.structs.replace(memory, stopping=Stopping(cause=cause, began=now, grace=grace))
    if running.cause is StopCause.REMOVED:
        cause = running.cause
    began = min(running.began, now)  # the clock may have been set back
    merged = min(running.grace, int(now - began) + grace)
    return msgspec.structs.replace(memory, stopping=Stopping(cause=cause, began=began, grace=merged))


def begin(draft: Draft, cause: StopCause) -> None:
    draft.change(
        stopping=stop_requested(draft.memory, cause=cause, grace=grace_of(draft.pod, cause), now=draft.now).stopping
    )
    if cause is StopCause.SANDBOX and draft.observed.sandboxes:
        draft.event("SandboxChanged", SANDBOX_CHANGED)
    elif cause is StopCause.DEADLINE:
        draft.change(deadline_exceeded=True)
        draft.event("DeadlineExceeded", DEADLINE_MESSAGE)


def kill(draft: Draft, order: KillOrder) -> None:
    """Begin to stop one container. Does nothing if it is being stopped already."""
    record = order.record
    if record.id in draft.memory.kills:
        return
    entry = Kill(reason=order.reason, message=order.message, began=draft.now, grace=order.grace)
    draft.change(kills={**draft.memory.kills, record.id: entry})
    draft.event("Killing", order.message, container=record.name)


def kill_strays(draft: Draft) -> None:
    """Stop what runs but is nobody's: a newer record of its name exists, or an edit took it out of the manifest."""
    for record in alive(draft.observed):
        if draft.observed.newest(record.name) is not record or find(draft.pod, record.name) is None:
            message = f"Stopping container {record.name}"
            grace = spec_grace(draft.pod)
            kill(draft, KillOrder(record=record, reason=KillReason.UNKNOWN, message=message, grace=grace))


def drive_kills(draft: Draft) -> None:
    """Take every single kill a step further: preStop, then the stop signal, in no order (LC 10.5.5)."""
    for record in alive(draft.observed):
        entry = draft.memory.kills.get(record.id)
        if entry is not None:
            _drive(draft, record, began=entry.began, grace=entry.grace, hook_key=record.id, turn=True)


def drive_stop(draft: Draft, stopping: Stopping) -> None:
    """Take the pod-wide stop a step further (LC 10.3, README 6)."""
    records = alive(draft.observed)
    for record in records:
        entry = draft.memory.kills.get(record.id)
        # One that came up during the stop (a sidecar that was started again) is told when its turn has come.
        # (One whose time is still to come was there before the clock was set back.)
        late = stopping.began < record.created_at <= draft.now
        began, grace = stopping.began, stopping.grace
        if entry is None and not late:
            _join(draft, record, stopping)
        elif entry is not None and entry.began + entry.grace < began + grace:
            began, grace = entry.began, entry.grace
        own_hook = record.id in draft.memory.pre_stop
        _drive(
            draft,
            record,
            began=began,
            grace=grace,
            hook_key=record.id if own_hook else record.name,
            turn=grace == 0 or _has_turn(draft, record, records),
        )
        if entry is None and late and record.id in draft.memory.signalled:
            _join(draft, record, stopping)


def _join(draft: Draft, record: ObservedContainer, stopping: Stopping) -> None:
    message = f"Stopping container {record.name}"
    kill(draft, KillOrder(record=record, reason=KillReason.POD, message=message, grace=stopping.grace))


def _has_turn(draft: Draft, record: ObservedContainer, records: list[ObservedContainer]) -> bool:
    """Regular and init containers at once; a sidecar when they and every later sidecar are down."""
    sidecars = sidecar_names(draft.pod)
    if record.name not in sidecars:
        return True
    first = set(sidecars[: sidecars.index(record.name) + 1])
    coming = {c.name for c in all_containers(draft.pod) if starting(draft.memory, c.name)}
    return not (({other.name for other in records} | coming) - first)


def _drive(draft: Draft, record: ObservedContainer, *, began: float, grace: int, hook_key: str, turn: bool) -> None:
    """One container: its hook, then the wait for its turn, then the signal; all of it by began + grace."""
    deadline = began + grace
    if draft.now < deadline:
        draft.wake(deadline)
        if pre_stop_of(draft.pod, record.name) and not _hook_over(draft, record, hook_key):
            return
        if not turn:
            return
    memory = draft.memory
    if record.id in memory.signalled and stop_in_flight(memory, record.id) and deadline >= memory.stop_by[record.id]:
        return
    timeout = max(grace - int(draft.now - began), MINIMUM_GRACE)
    draft.hand_out(StopContainer(name=record.name, container_id=record.id, timeout=timeout))
    draft.change(signalled=memory.signalled | {record.id}, stop_by={**memory.stop_by, record.id: deadline})


def _hook_over(draft: Draft, record: ObservedContainer, key: str) -> bool:
    """Whether the preStop hook has ended. If it was not begun, or died with the daemon, it is begun now."""
    if draft.memory.pre_stop.get(key, HookState.PENDING) is not HookState.PENDING:
        return True
    draft.hand_out(RunPreStop(name=record.name, container_id=record.id))
    draft.change(pre_stop={**draft.memory.pre_stop, key: HookState.PENDING})
    return False
