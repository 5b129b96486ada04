"""How one pod enters its Job's books: outcome, counters, index and back-off, all at once (JOBS 4, 7, 12).

`decide` calls `count`; what comes out is written in one transaction (R2).
"""

from __future__ import annotations

from msgspec.structs import replace

from minikubelet.api.batch import FAIL_INDEX, FAIL_JOB, IGNORE, TERMINATING_OR_FAILED, JobSpec, is_indexed
from minikubelet.jobs.backoff import with_failure, with_success
from minikubelet.jobs.moments import finish_time
from minikubelet.jobs.policies import judge_failure
from minikubelet.store.job_records import IndexRecord, JobRecord, Mark, Outcome, PodRecord

#: Marks that the Job's own logic did not set: such a pod counts (JOBS 4).
FOREIGN_MARKS = frozenset({Mark.OPERATOR, Mark.HOST})


def due_outcome(pod: PodRecord, spec: JobSpec) -> Outcome | None:
    """The outcome that a pod has come to by itself, if it has none yet and came to one.

    IGNORED is told from FAILED by `count`, which knows the policy.
    """
    if pod.outcome is not None:
        return None
    if pod.ended:
        return Outcome.SUCCEEDED if pod.status.phase == "Succeeded" else Outcome.FAILED
    if pod.mark in FOREIGN_MARKS and spec.pod_replacement_policy == TERMINATING_OR_FAILED:
        return Outcome.FAILED
    return None


def ended(pod: PodRecord) -> PodRecord:
    """A terminal pod with its end written into its record."""
    if pod.phase or not pod.ended:
        return pod
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    codes = {each.name: each.state.terminated.exit_code for each in statuses if each.state.terminated is not None}
    return replace(pod, phase=pod.status.phase if pod.status.phase == "Succeeded" else "Failed", exit_codes=codes)


def count(job: JobRecord, pod: PodRecord, outcome: Outcome, *, now: float) -> tuple[JobRecord, PodRecord, str | None]:
    """Enter a pod's outcome. Also returns the message of a FailJob rule that it matches.

    A FAILED outcome becomes IGNORED where an Ignore rule matches.
    """
    spec, message = job.job.spec, None
    verdict = judge_failure(spec.pod_failure_policy, pod) if outcome is Outcome.FAILED else None
    if verdict is not None and verdict.action == IGNORE:
        outcome = Outcome.IGNORED
    if verdict is not None and verdict.action == FAIL_JOB:
        message = verdict.message
    out_of_range = pod.index is not None and spec.completions is not None and pod.index >= spec.completions
    pod = ended(replace(pod, outcome=outcome, outcome_at=now, cut=pod.cut or out_of_range))
    finished_at = finish_time(pod)
    match outcome:
        case Outcome.SUCCEEDED:
            job = with_success(replace(job, succeeded_pods=job.succeeded_pods + 1), finished_at)
            if pod.index is not None and is_indexed(spec) and not out_of_range:
                job = replace(job, completed=job.completed.add(pod.index))
        case Outcome.FAILED:
            job = with_failure(replace(job, failed=job.failed + 1), finished_at)
            job = _index_failed(job, pod, finished_at, at_once=verdict is not None and verdict.action == FAIL_INDEX)
        case Outcome.IGNORED:
            job = with_failure(job, finished_at)
            job = _with_index(
                job, pod, IndexRecord(failures=pod.failures, ignored=pod.ignored + 1, finished_at=finished_at)
            )
        case Outcome.DROPPED:
            pass
    return job, pod, message


def _index_failed(job: JobRecord, pod: PodRecord, finished_at: float, *, at_once: bool) -> JobRecord:
    limit = job.job.spec.backoff_limit_per_index
    if limit is None or pod.index is None:
        return job
    job = _with_index(job, pod, IndexRecord(failures=pod.failures + 1, ignored=pod.ignored, finished_at=finished_at))
    if (at_once or pod.failures >= limit) and not pod.cut and pod.index not in job.completed:
        job = replace(job, failed_indexes=job.failed_indexes.add(pod.index))
    return job


def _with_index(job: JobRecord, pod: PodRecord, record: IndexRecord) -> JobRecord:
    if job.job.spec.backoff_limit_per_index is None or pod.index is None or pod.cut:
        return job
    return replace(job, indexes={**job.indexes, pod.index: record})


def succeeded(job: JobRecord) -> int:
    """`status.succeeded`."""
    if not is_indexed(job.job.spec):
        return job.succeeded_pods
    return len(job.completed)
