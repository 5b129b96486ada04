"""The heart: from a pod's spec, what the runtime shows, and what we remember, to what is to be done now.

`decide` is a reducer. It hands out every action once (its key goes into `memory.in_flight`), so deciding again with
the memory it returned asks for nothing. The parts: `plan` (LC 3 to 5) says what is needed; `starts`, `stop` and `clean`
say what of it is due; `status` says what to publish. `pods/worker.py` calls it whenever something happened or `wake_at`
has come.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.api.qos import qos_class
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.absorb import absorb
from minikubelet.lifecycle.actions import CreateSandbox, Decision
from minikubelet.lifecycle.backoff import CRASH, BackoffPolicy
from minikubelet.lifecycle.clean import (
    all_down,
    collect_dead,
    purge_init_records,
    remove,
    remove_everything,
    stop_sandboxes,
)
from minikubelet.lifecycle.draft import Draft
from minikubelet.lifecycle.memory import PASSING, Memory, StopCause, Stopping
from minikubelet.lifecycle.plan import plan
from minikubelet.lifecycle.records import Observed
from minikubelet.lifecycle.restart import restart_all_triggers
from minikubelet.lifecycle.sandbox import new_attempt, replaces
from minikubelet.lifecycle.starts import drive_post_start, restart_sidecars, start_containers
from minikubelet.lifecycle.status import pod_status
from minikubelet.lifecycle.stop import begin, drive_kills, drive_stop, kill, kill_strays
from minikubelet.lifecycle.view import alive

_SANDBOX = "sandbox"  # the key of CreateSandbox


def decide(
    pod: Pod, observed: Observed, memory: Memory, now: float, *, crash_backoff: BackoffPolicy = CRASH
) -> Decision:
    """What is to be done, said and remembered at `now` (unix seconds)."""
    draft = Draft(pod, observed, memory, now=now, crash_backoff=crash_backoff)
    absorb(draft)
    _watch_deadline(draft)
    while True:
        if draft.memory.stopping is None:
            _live(draft)
        stopping = draft.memory.stopping
        if stopping is None:
            break
        _stop(draft, stopping)
        if draft.memory.stopping is not None:
            break
        # That stop was a passing one; what it made room for is begun at once.
    removing = _cause(draft) is StopCause.REMOVED
    if not removing:
        collect_dead(draft)
    status = _status(draft, was_stopped=memory.stopped)
    draft.change(status=status)
    return Decision(
        actions=tuple(draft.actions),
        events=tuple(draft.events),
        status=status,
        memory=draft.memory,
        wake_at=draft.wake_at,
        finished=_finished(draft, removing=removing),
    )


def _cause(draft: Draft) -> StopCause | None:
    return draft.memory.stopping.cause if draft.memory.stopping is not None else None


def _watch_deadline(draft: Draft) -> None:
    """LC 10.5.2. A pod that ends already, for whatever reason, is not failed by its deadline any more."""
    seconds = draft.pod.spec.active_deadline_seconds
    if seconds is None or _cause(draft) not in (None, *PASSING):
        return
    due = draft.memory.accepted_at + seconds
    if draft.now >= due:
        begin(draft, StopCause.DEADLINE)
    draft.wake(due)


# ---- a pod that lives --------------------------------------------------------------
def _live(draft: Draft) -> None:
    if draft.in_flight(_SANDBOX):
        return
    step = plan(draft.pod, draft.observed, draft.memory)
    if step.create_sandbox and not draft.observed.sandboxes and not draft.observed.containers:
        draft.hand_out(CreateSandbox(attempt=step.attempt))
        return
    if step.cause is not None:
        begin(draft, step.cause)
        return
    if step.initialized:
        draft.change(initialized=draft.memory.initialized | {draft.observed.sandboxes[0].id})
    for order in step.to_kill:
        kill(draft, order)
    kill_strays(draft)
    drive_post_start(draft)
    drive_kills(draft)
    start_containers(draft, step)


# ---- a pod that is being stopped ---------------------------------------------------
def _stop(draft: Draft, stopping: Stopping) -> None:
    drive_stop(draft, stopping)
    restart_sidecars(draft)
    if not all_down(draft):
        return
    if stopping.cause is StopCause.SANDBOX:
        _renew_sandbox(draft, stopping)
    elif stopping.cause is StopCause.RESTART_ALL:
        _reset(draft)
    else:
        _end(draft)


def _renew_sandbox(draft: Draft, stopping: Stopping) -> None:
    """LC 3.2: all is down; sandboxes stopped and init records gone, the new sandbox is made, or the pod ends."""
    attempt = new_attempt(draft.pod, draft.observed)
    if attempt is None:
        _clear(draft)
        return
    if not replaces(draft.pod, draft.observed, draft.memory, attempt):
        draft.change(stopping=msgspec.structs.replace(stopping, cause=StopCause.COMPLETED))
        _end(draft)
        return
    stopped, purged = stop_sandboxes(draft), purge_init_records(draft)
    if stopped and purged:
        draft.hand_out(CreateSandbox(attempt=attempt))


def _reset(draft: Draft) -> None:
    """LC 5.4.2: remove all records, those that asked for it last, so that a daemon that dies meanwhile begins again."""
    asking = {record.id for record in restart_all_triggers(draft.pod, draft.observed)}
    rest = [record for record in draft.observed.containers if record.id not in asking]
    for record in rest or draft.observed.containers:
        remove(draft, record, logs=False)
    if not draft.observed.containers:
        sandboxes = frozenset(sandbox.id for sandbox in draft.observed.sandboxes)
        draft.change(
            restarting_all=frozenset(draft.memory.restart_counts),
            init_done={},
            initialized=draft.memory.initialized - sandboxes,
            start_errors={},
        )
        _clear(draft)


def _clear(draft: Draft) -> None:
    """A passing stop is over; the next one has its hooks run again."""
    draft.change(stopping=None, pre_stop={})


def _end(draft: Draft) -> None:
    """All containers are down for good: sandboxes go down, the status becomes final, a removed pod's records go."""
    if not stop_sandboxes(draft):
        return
    draft.change(stopped=True)
    if _cause(draft) is StopCause.REMOVED:
        remove_everything(draft)


# ---- what is told ------------------------------------------------------------------
def _status(draft: Draft, *, was_stopped: bool) -> PodStatus:
    """A status that was final stays as it is, whatever is removed after it."""
    memory = draft.memory
    if was_stopped and memory.status is not None:
        return memory.status
    known = memory.status.qos_class if memory.status is not None else ""  # a pod's class never changes
    return pod_status(draft.pod, draft.observed, memory, now=draft.now, qos_class=known or qos_class(draft.pod.spec))


def _finished(draft: Draft, *, removing: bool) -> bool:
    """Nothing runs, nothing is in flight (a hook that outlived its container does not count)."""
    busy = any(not key.startswith(("preStop:", "postStart:")) for key in draft.memory.in_flight)
    left = bool(draft.observed.containers or draft.observed.sandboxes) if removing else bool(alive(draft.observed))
    return draft.memory.stopped and not busy and not left
