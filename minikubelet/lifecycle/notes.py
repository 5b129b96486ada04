"""Pure updates of memory with what became of an action, and with what came from outside. Called by `pods/worker.py`.

A note never decides; the next `decide` does. The worker observes the runtime after an action's effect before it notes
that the action has finished: `decide` takes what is observed for the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.memory import HookState, Memory, ProbeResult, StartError, StopCause
from minikubelet.lifecycle.records import Observed, ObservedContainer
from minikubelet.lifecycle.stop import grace_of, stop_requested
from minikubelet.lifecycle.view import NO_RESULTS, find

#: Why a container could not be made: something it refers to is missing or wrong.
CONFIG_ERROR = "CreateContainerConfigError"
#: What a failed pull is shown as between two tries.
PULL_BACKOFF = "ImagePullBackOff"
#: Why a container has no image, besides a failed pull.
_NO_IMAGE = frozenset({"ErrImageNeverPull", "ImageInspectError"})

T = TypeVar("T")
ProbeKind = Literal["startup", "liveness", "readiness"]

_replace = msgspec.structs.replace


def action_finished(memory: Memory, key: str) -> Memory:
    """The action with this key has come back, however it ended. Noted last, after what it brought."""
    return _replace(memory, in_flight=memory.in_flight - {key})


def attempts_known(memory: Memory, attempts: Mapping[str, int]) -> Memory:
    """What is known from elsewhere of how often containers were started, by name: they are counted on from there."""
    known = memory.restart_counts
    return _replace(
        memory, restart_counts={**known, **{name: max(n, known.get(name, 0)) for name, n in attempts.items()}}
    )


def sandbox_hindered(memory: Memory, why: str) -> Memory:
    """The sandbox could not be made; it is tried again."""
    return _replace(memory, sandbox_hindered=why)


def container_started(memory: Memory, *, pod: Pod, name: str, container_id: str, restart_count: int) -> Memory:
    """A start succeeded: only this clears the last start error (LC 11.2.6). The postStart hook, if any, is due now."""
    container = find(pod, name)
    post_start = {key: state for key, state in memory.post_start.items() if key != name}
    if container is not None and container.lifecycle is not None and container.lifecycle.post_start is not None:
        post_start.setdefault(container_id, HookState.PENDING)
    return _replace(
        memory,
        post_start=post_start,
        sandbox_hindered="",
        start_errors=_without(memory.start_errors, name),
        restart_counts={**memory.restart_counts, name: max(restart_count, memory.restart_counts.get(name, 0))},
    )


def start_failed(memory: Memory, name: str, error: StartError) -> Memory:
    """A start failed before the container ran; it is tried again at `error.retry_at`."""
    return _replace(
        memory,
        post_start=_without(memory.post_start, name),
        start_errors={**memory.start_errors, name: error},
    )


def retry_configuration(memory: Memory, *, now: float, pulls: bool = False) -> Memory:
    """What a container could not be made for may be there now: no need to wait any longer.

    `pulls`: what an image could not be pulled for, too.
    """
    due = {
        name: _replace(error, retry_at=min(error.retry_at, now))
        for name, error in memory.start_errors.items()
        if error.reason == CONFIG_ERROR or (pulls and PULL_BACKOFF in (error.reason, error.later_reason))
    }
    return _replace(memory, start_errors={**memory.start_errors, **due}) if due else memory


def retry_images(memory: Memory, *, now: float) -> Memory:
    """An image that containers wait for may be there now: no need to wait any longer."""
    due = {
        name: _replace(error, retry_at=min(error.retry_at, now))
        for name, error in memory.start_errors.items()
        if error.reason in _NO_IMAGE or PULL_BACKOFF in (error.reason, error.later_reason)
    }
    return _replace(memory, start_errors={**memory.start_errors, **due}) if due else memory


def names_taken(memory: Memory, containers: Iterable[ObservedContainer]) -> Memory:
    """These never ran, and cannot be removed: the next of each gets a name of its own by counting on."""
    counts = {it.name: it.restart_count for it in containers}
    higher = {name: count for name, count in counts.items() if count > memory.restart_counts.get(name, -1)}
    return _replace(memory, restart_counts={**memory.restart_counts, **higher}) if higher else memory


def half_made(memory: Memory, container_id: str, *, observed: Observed) -> Memory:
    """The container never ran, and is going to be removed for that."""
    there = {record.id for record in observed.containers}
    return _replace(memory, half_made=memory.half_made & there | {container_id})


def came_through(memory: Memory, container_id: str) -> Memory:
    """The container's start was done after all, and its removal was not."""
    return _replace(memory, half_made=memory.half_made - {container_id})


def post_start_finished(memory: Memory, container_id: str, error: StartError | None) -> Memory:
    """The hook ended: well, or with `error`, for which its container will be killed (PH 7.1)."""
    if error is None:
        return _replace(memory, post_start={**memory.post_start, container_id: HookState.DONE})
    return _replace(
        memory,
        post_start={**memory.post_start, container_id: HookState.FAILED},
        post_start_errors={**memory.post_start_errors, container_id: error},
    )


def pre_stop_finished(memory: Memory, *, name: str, container_id: str) -> Memory:
    """The hook ended, well or not: the stop goes on either way (LC 10.3.1)."""
    over = dict.fromkeys(memory.pre_stop.keys() & {name, container_id}, HookState.DONE)
    return _replace(memory, pre_stop={**memory.pre_stop, **over})


def probe_result(memory: Memory, container_id: str, kind: ProbeKind, result: ProbeResult) -> Memory:
    """A probe's verdict on one container id, after its thresholds."""
    known = memory.probes.get(container_id, NO_RESULTS)
    fresh = _replace(known, **{kind: result})
    return _replace(memory, probes={**memory.probes, container_id: fresh})


def request_stop(memory: Memory, pod: Pod, cause: StopCause, now: float, *, grace: int | None = None) -> Memory:
    """The pod is to end: its manifest is gone (REMOVED), or the node wants it so.

    `grace`: seconds, if it is to be shorter than the spec's; at least 1 (LC 10.2). A stop under way goes on for the new
    cause with what is left of its time. A pod that has stopped already is only cleaned up.
    """
    wanted = grace_of(pod, cause)
    if grace is not None:
        wanted = min(wanted, max(grace, 1))
    return stop_requested(memory, cause=cause, grace=wanted, now=now)


def restore(memory: Memory) -> Memory:
    """After a restart of the daemon: nothing is in flight any more.

    A hook that was running died with its client and is run again; so did the SIGKILL that was to follow a stop signal,
    so the stop is asked for again with the grace that is left.
    """
    return _replace(memory, in_flight=frozenset(), signalled=frozenset(), stop_by={})


def forget_records(memory: Memory, observed: Observed) -> Memory:
    """Drop what is kept for containers and sandboxes that no longer exist.

    Only to be called with an observation that is newer than every note (a full relist with no action in flight).
    """
    ids = {record.id for record in observed.containers}
    names = {record.name for record in observed.containers}
    sandboxes = {sandbox.id for sandbox in observed.sandboxes}
    hooks = ids | names | set(memory.start_keys)
    return _replace(
        memory,
        probes=_only(memory.probes, ids),
        post_start=_only(memory.post_start, hooks),
        pre_stop=_only(memory.pre_stop, hooks),
        kills=_only(memory.kills, ids),
        signalled=memory.signalled & ids,
        stop_by=_only(memory.stop_by, ids),
        ended_by=_only(memory.ended_by, ids),
        stopped_sandboxes=memory.stopped_sandboxes & sandboxes,
        init_done=_only(memory.init_done, sandboxes),
        initialized=memory.initialized & sandboxes,
    )


def _without(mapping: dict[str, T], key: str) -> dict[str, T]:
    return {k: v for k, v in mapping.items() if k != key}


def _only(mapping: dict[str, T], keys: set[str]) -> dict[str, T]:
    return {k: v for k, v in mapping.items() if k in keys}
