"""Which of the planned starts are made now: one behind the other where the sequence asks for it, none in its back-off.

The plan (LC 4 and 5) says what is due; here is what section 6 and 7 of LC and README 3 add.
"""

from __future__ import annotations

from minikubelet.api.pod import Container, is_sidecar
from minikubelet.lifecycle.actions import RunPostStart, StartContainer
from minikubelet.lifecycle.backoff import advance, check, crash_key, go_duration
from minikubelet.lifecycle.draft import Draft
from minikubelet.lifecycle.memory import HookState, Kill, KillReason, StartError
from minikubelet.lifecycle.plan import Plan
from minikubelet.lifecycle.records import ObservedContainer, RecordState
from minikubelet.lifecycle.stop import kill
from minikubelet.lifecycle.times import rfc3339
from minikubelet.lifecycle.view import (
    active,
    all_containers,
    ended_at,
    is_alive,
    newest_exited,
    pod_label,
    sidecars_come_back,
    spec_grace,
    starting,
)
from minikubelet.lifecycle.walk import KillOrder

CRASH_LOOP = "CrashLoopBackOff"
POST_START_FAILED = "FailedPostStartHook"


def start_containers(draft: Draft, plan: Plan) -> None:
    """Init entries as the walk gave them, then regular containers in spec order."""
    inits, mains = draft.pod.spec.init_containers, draft.pod.spec.containers
    sandbox_id = draft.observed.sandboxes[0].id
    reached = max((i for i, entry in enumerate(inits) if active(draft.observed, entry.name)), default=-1)
    for index in plan.init_to_start:
        first_time = index > reached and not plan.initialized
        if first_time and index - 1 in plan.init_to_start:
            continue  # the one before it is being replaced; it is a gate again once it runs
        try_start(draft, inits[index], sandbox_id)
    for index in plan.to_start:
        if any(_busy(draft, earlier) for earlier in mains[:index]):
            break
        try_start(draft, mains[index], sandbox_id)


def _busy(draft: Draft, container: Container) -> bool:
    """Its first start, or the hook of it, has not ended: the next regular container waits (LC 5.1, README 3).

    A restart holds nothing back: it would make others wait for a pull or a hook they have already waited for.
    """
    records = [r for r in draft.observed.containers if r.name == container.name]
    if any(r.state is RecordState.EXITED and r.sandbox_id == draft.observed.sandboxes[0].id for r in records):
        return False
    pending = bool(records) and records[0].state is RecordState.RUNNING and _hook_state(draft, records[0])
    return pending is HookState.PENDING or starting(draft.memory, container.name)


def _hook_state(draft: Draft, record: ObservedContainer) -> HookState | None:
    return draft.memory.post_start.get(record.id)


def restart_sidecars(draft: Draft) -> None:
    """While regular containers still terminate, a sidecar that dies is started again (KEP-753, README 6).

    Only in a stop that something asked for from outside; never one that was signalled, never one for the first time.
    """
    stopping = draft.memory.stopping
    sandbox = draft.observed.ready_sandbox()
    if stopping is None or sandbox is None or draft.now >= stopping.began + stopping.grace:
        return
    if not sidecars_come_back(draft.pod, draft.observed, draft.memory):
        return
    for entry in draft.pod.spec.init_containers:
        record = active(draft.observed, entry.name)
        if is_sidecar(entry) and record is not None and record.state is RecordState.EXITED:
            told = draft.memory.kills.get(record.id, _NOT_TOLD).reason is KillReason.POD
            if not (told and record.id in draft.memory.signalled):
                try_start(draft, entry, sandbox.id)
    drive_post_start(draft, since=stopping.began)


_NOT_TOLD = Kill(reason=KillReason.UNKNOWN, message="", began=0.0, grace=0)


def try_start(draft: Draft, container: Container, sandbox_id: str) -> None:
    """Hand out a start unless the old container still runs, a start is in flight, or a back-off holds it."""
    name = container.name
    newest = draft.observed.newest(name)
    if starting(draft.memory, name) or (newest is not None and is_alive(newest)):
        return
    memory = draft.memory
    key = crash_key(draft.pod, container)
    same_key = memory.start_keys.get(name) == key
    exited = newest_exited(draft.observed, name)
    failed_at = ended_at(exited, memory) if exited else 0.0
    due = (
        check(memory.backoff.get(key), failed_at=failed_at, now=draft.now, policy=draft.crash_backoff)
        if exited
        else None
    )
    if due is not None:
        _back_off(draft, container, delay=memory.backoff[key].delay, due=due)
        return
    error = memory.start_errors.get(name)
    if error is not None and draft.now < error.retry_at and _still_counts(error, failed_at, same_key=same_key):
        draft.wake(error.retry_at)
        draft.wake(error.later_at)
        return
    if exited is not None:
        entry = advance(memory.backoff.get(key), failed_at=failed_at, now=draft.now, policy=draft.crash_backoff)
        draft.change(backoff={**memory.backoff, key: entry})
    draft.change(start_keys={**memory.start_keys, name: key})
    if container.lifecycle is not None and container.lifecycle.post_start is not None:
        draft.change(post_start={**memory.post_start, name: HookState.PENDING})
    count = memory.restart_counts.get(name, -1) + 1
    draft.hand_out(StartContainer(name=name, sandbox_id=sandbox_id, restart_count=count))


def _still_counts(error: StartError, failed_at: float, *, same_key: bool) -> bool:
    """Whether this error's own wait holds: not after an edit of the image, nor once a newer exit has its back-off."""
    return same_key and error.reason != CRASH_LOOP and failed_at <= error.at


def _back_off(draft: Draft, container: Container, *, delay: float, due: float) -> None:
    """LC 6.1, 7.9: said the moment it begins, with the time of the next try."""
    draft.wake(due)
    name, meta = container.name, draft.pod.metadata
    label = pod_label(draft.pod)
    known = draft.memory.start_errors.get(name)
    if known is not None and known.reason == CRASH_LOOP and known.retry_at == due:
        return
    message = (
        f"back-off {go_duration(delay)} restarting failed container={name} pod={label}, next try at {rfc3339(due)}"
    )
    error = StartError(reason=CRASH_LOOP, message=message, at=draft.now, retry_at=due)
    draft.change(start_errors={**draft.memory.start_errors, name: error})
    text = f"Back-off restarting failed container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
    draft.event("BackOff", text, container=name, kind="Warning")


def drive_post_start(draft: Draft, *, since: float = 0.0) -> None:
    """Run the postStart hooks that are due; a container whose hook failed is killed (PH 7.1).

    `since`: only of containers made after that moment.
    """
    for container in all_containers(draft.pod):
        record = draft.observed.newest(container.name)
        if record is None or record.state is not RecordState.RUNNING:
            continue
        if since and not since <= record.created_at <= draft.now:
            continue
        if record.id in draft.memory.kills:
            continue
        state = _hook_state(draft, record)
        if state is HookState.PENDING:
            draft.hand_out(RunPostStart(name=container.name, container_id=record.id))
        elif state is HookState.FAILED:
            draft.event(POST_START_FAILED, "PostStartHook failed", container=container.name, kind="Warning")
            grace = spec_grace(draft.pod)
            kill(draft, KillOrder(record=record, reason=KillReason.POST_START, message=POST_START_FAILED, grace=grace))
