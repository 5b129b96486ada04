"""What the runtime shows becomes memory: what must outlive the records is noted, what was kept for gone ones dropped.

The first step of every decision.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.pod import is_sidecar
from minikubelet.lifecycle.backoff import not_to_come, prune
from minikubelet.lifecycle.draft import Draft
from minikubelet.lifecycle.notes import forget_records
from minikubelet.lifecycle.records import RecordState
from minikubelet.lifecycle.view import active, all_containers, bringing_up, ended_at, failed, hook_holds, starting


def _mind_the_clock(draft: Draft) -> None:
    """After the clock was set back: what was noted in its future is taken to be of now, so no wait becomes endless.

    And remembered so, or each decision would find the same wait before it anew.
    """
    memory, now = draft.memory, draft.now
    if memory.stopping is not None and memory.stopping.began > now:
        draft.change(stopping=msgspec.structs.replace(memory.stopping, began=now))
    late_kills = {cid: kill for cid, kill in memory.kills.items() if kill.began > now}
    if late_kills:
        rebased = {cid: msgspec.structs.replace(kill, began=now) for cid, kill in late_kills.items()}
        draft.change(kills={**memory.kills, **rebased})
    late_errors = {name: error for name, error in memory.start_errors.items() if error.at > now}
    if late_errors:
        fixed = {
            name: msgspec.structs.replace(
                error, at=now, retry_at=now + error.retry_at - error.at, later_at=now + error.later_at - error.at
            )
            for name, error in late_errors.items()
        }
        draft.change(start_errors={**memory.start_errors, **fixed})


def _mind_the_ends(draft: Draft) -> None:
    """The same for what back-off goes by: the ends of containers, as the runtime tells them, and its own entries."""
    now = draft.now
    dead = (record for record in draft.observed.containers if record.state is RecordState.EXITED)
    late = {record.id: now for record in dead if ended_at(record, draft.memory) > now}
    if late:
        draft.change(ended_by={**draft.memory.ended_by, **late})
    if any(entry.last_update > now for entry in draft.memory.backoff.values()):
        draft.change(backoff={key: not_to_come(entry, now=now) for key, entry in draft.memory.backoff.items()})


def absorb(draft: Draft) -> None:
    """Note what must outlive the records: restart counts, completed init containers, ends of starts."""
    _mind_the_clock(draft)
    _mind_the_ends(draft)
    if not bringing_up(draft.memory):
        draft.memory = forget_records(draft.memory, draft.observed)
    memory, observed = draft.memory, draft.observed
    counts = dict(memory.restart_counts)
    done = {key: set(names) for key, names in memory.init_done.items()}
    post_start, errors = dict(memory.post_start), dict(memory.start_errors)
    for record in observed.containers:
        # A start that has not come back may yet turn out never to have been one: it is counted when it has.
        if record.state is not RecordState.CREATED and not starting(memory, record.name):
            counts[record.name] = max(counts.get(record.name, 0), record.restart_count)
    for entry in draft.pod.spec.init_containers:
        completed = active(observed, entry.name)
        if (
            not is_sidecar(entry)
            and completed is not None
            and completed.state is RecordState.EXITED
            and not failed(completed)
        ):
            done.setdefault(completed.sandbox_id, set()).add(entry.name)
    for container in all_containers(draft.pod):
        newest = observed.newest(container.name)
        if newest is None or newest.state is not RecordState.RUNNING:
            continue
        if container.name in post_start and not starting(memory, container.name):
            # The daemon died between the start and the note of it: the hook has still to run.
            post_start.setdefault(newest.id, post_start.pop(container.name))
        if not hook_holds(container, newest, draft.memory):
            errors.pop(container.name, None)
    for container_id, error in memory.post_start_errors.items():
        failed_one = next((r for r in observed.containers if r.id == container_id), None)
        if failed_one is not None and observed.newest(failed_one.name) is failed_one:
            errors[failed_one.name] = error
    present = {c.name for c in all_containers(draft.pod) if active(observed, c.name) is not None}
    draft.change(
        restart_counts=counts,
        init_done={key: frozenset(names) for key, names in done.items()},
        post_start=post_start,
        post_start_errors={},
        start_errors=errors,
        restarting_all=memory.restarting_all - present if memory.stopping is None else memory.restarting_all,
        backoff=prune(memory.backoff, now=draft.now, policy=draft.crash_backoff),
    )
