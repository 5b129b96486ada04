"""What is taken away: dead records that nobody needs (LC 12.11, GC-1), and all of a pod once it has stopped."""

from __future__ import annotations

from minikubelet.lifecycle.actions import RemoveContainer, RemoveSandbox, StopSandbox
from minikubelet.lifecycle.draft import Draft
from minikubelet.lifecycle.records import ObservedContainer, RecordState
from minikubelet.lifecycle.view import alive, bringing_up, find, is_alive, is_init_entry, starting, stop_in_flight


def all_down(draft: Draft) -> bool:
    """No container runs, and none is about to."""
    return not bringing_up(draft.memory) and not alive(draft.observed)


def stop_sandboxes(draft: Draft) -> bool:
    """Stop every sandbox: one that is READY until it is not, one that died once, to give its network back.

    True when there is nothing left to do.
    """
    done = True
    for sandbox in draft.observed.sandboxes:
        action = StopSandbox(sandbox_id=sandbox.id)
        if sandbox.ready or sandbox.id not in draft.memory.stopped_sandboxes:
            draft.hand_out(action)
            draft.change(stopped_sandboxes=draft.memory.stopped_sandboxes | {sandbox.id})
        done = done and not sandbox.ready and not draft.in_flight(action.key)
    return done


def remove(draft: Draft, record: ObservedContainer, *, logs: bool) -> None:
    draft.hand_out(RemoveContainer(name=record.name, container_id=record.id, logs=logs))


def purge_init_records(draft: Draft) -> bool:
    """Before a new sandbox: all init records go, with their logs (LC 1.3.4). True when none is left."""
    records = [record for record in draft.observed.containers if is_init_entry(draft.pod, record.name)]
    for record in records:
        remove(draft, record, logs=True)
    return not records


def remove_everything(draft: Draft) -> None:
    """The manifest is gone: all records with their logs, then the sandboxes (LC 12.11)."""
    for record in draft.observed.containers:
        remove(draft, record, logs=True)
    if not draft.observed.containers:
        for sandbox in draft.observed.sandboxes:
            draft.hand_out(RemoveSandbox(sandbox_id=sandbox.id))


def collect_dead(draft: Draft) -> None:
    """Of each name keep the newest record and, beside a running one, the newest dead one (GC-1)."""
    seen: dict[str, bool] = {}  # name -> a dead record is being kept
    for record in draft.observed.containers:
        dead = record.state is RecordState.EXITED
        if record.name not in seen and find(draft.pod, record.name) is not None:
            seen[record.name] = dead
        elif dead and not seen.get(record.name, True):
            seen[record.name] = True
        elif not (is_alive(record) or starting(draft.memory, record.name) or stop_in_flight(draft.memory, record.id)):
            remove(draft, record, logs=True)
    _collect_sandboxes(draft)


def _collect_sandboxes(draft: Draft) -> None:
    """Older sandboxes that are down and hold no container any more."""
    used = {record.sandbox_id for record in draft.observed.containers}
    for sandbox in draft.observed.sandboxes[1:]:
        if not sandbox.ready and sandbox.id not in used:
            draft.hand_out(RemoveSandbox(sandbox_id=sandbox.id))
