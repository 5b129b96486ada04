"""How many pods a Job is to run, which are too many, and which are missing (JOBS 6). Part of `decide`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minikubelet.api.batch import ONLY_FAILED, is_indexed
from minikubelet.api.index_set import IndexSet
from minikubelet.jobs.backoff import Settings, held_until, index_held_until
from minikubelet.jobs.counting import succeeded
from minikubelet.jobs.moments import is_ready, most_restarts, ready_since
from minikubelet.store.job_records import JobRecord, PodRecord


class NewPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to be made: of an index, with the failure counts that it carries (JOBS 7.3)."""

    index: int | None = None
    failures: int = 0
    ignored: int = 0


def wanted_pods(job: JobRecord, active: int) -> int:
    """WantActive."""
    spec, done = job.job.spec, succeeded(job)
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return active if done > 0 else parallelism
    return max(0, min(parallelism, spec.completions - done))


def surplus_pods(job: JobRecord, live: Sequence[PodRecord]) -> list[PodRecord]:
    """Those to be stopped: indexes that must not run whatever the number, then the least valuable ones."""
    excess = max(0, len(live) - wanted_pods(job, len(live)))
    doomed, left = _misplaced(job, live) if is_indexed(job.job.spec) else ([], list(live))
    if len(doomed) < excess:
        left.sort(key=_value)
        doomed += left[: excess - len(doomed)]
    return doomed


def _misplaced(job: JobRecord, live: Sequence[PodRecord]) -> tuple[list[PodRecord], list[PodRecord]]:
    """No valid index, an index beyond completions, all but one of a doubled index; and the others."""
    completions = job.job.spec.completions or 0
    doomed, by_index = [], dict[int, list[PodRecord]]()
    for pod in live:
        if pod.index is None or pod.index >= completions:
            doomed.append(pod)
        else:
            by_index.setdefault(pod.index, []).append(pod)
    left = []
    for twins in by_index.values():
        twins.sort(key=_value)
        doomed += twins[:-1]
        left.append(twins[-1])
    return doomed, left


def _value(pod: PodRecord) -> tuple[bool, bool, float, int, int, float, str]:
    """Smallest first to go: Pending, not ready, ready for a shorter time, more restarts, newer."""
    regular, sidecars = most_restarts(pod)
    ready = is_ready(pod)
    since = -ready_since(pod) if ready else 0.0
    return (pod.status.phase == "Running", ready, since, -regular, -sidecars, -pod.created_at, pod.name)


def missing_pods(
    job: JobRecord, live: Sequence[PodRecord], terminating: Sequence[PodRecord], *, now: float, settings: Settings
) -> tuple[tuple[NewPod, ...], float | None]:
    """The pods to be made now, and when to look again because back-off holds one."""
    spec = job.job.spec
    only_failed = spec.pod_replacement_policy == ONLY_FAILED
    count = wanted_pods(job, len(live)) - len(live) - (len(terminating) if only_failed else 0)
    if count <= 0:
        return (), None
    per_index = spec.backoff_limit_per_index is not None
    if not per_index and (due := held_until(job, settings)) > now:
        return (), due
    if not is_indexed(spec):
        return (NewPod(),) * count, None
    held = [*live, *terminating] if only_failed else live
    indexes = free_indexes(job, {pod.index for pod in held if pod.index is not None}, count)
    new, wakes = [], []
    for index in indexes:
        record = job.indexes.get(index) if per_index else None
        if (due := index_held_until(record, settings)) > now:
            wakes.append(due)
        elif record is None:
            new.append(NewPod(index=index))
        else:
            new.append(NewPod(index=index, failures=record.failures, ignored=record.ignored))
    return tuple(new), min(wakes, default=None)


def free_indexes(job: JobRecord, held: set[int], count: int) -> list[int]:
    """The lowest indexes that are neither completed nor failed nor held."""
    taken = _union(job.completed, job.failed_indexes)
    completions = job.job.spec.completions or 0
    found: list[int] = []
    at = 0
    for first, last in [*taken, (completions, completions)]:
        for index in range(at, min(first, completions)):
            if index not in held:
                found.append(index)
                if len(found) == count:
                    return found
        at = last + 1
    return found


def _union(one: IndexSet, two: IndexSet) -> list[tuple[int, int]]:
    return sorted((*one.runs, *two.runs))
