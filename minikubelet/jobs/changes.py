"""What befalls a Job from outside its own pass: edits, removal, commands. Pure; `worker` commits what they return."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from minikubelet.api.batch import Job
from minikubelet.jobs.edits import Edit, cut, edited, judge_edit
from minikubelet.lifecycle.actions import Event
from minikubelet.store.job_records import JobRecord, JobState, Mark, Outcome, PodRecord


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction writes; `pods` are those whose record changed."""

    job: JobRecord
    pods: tuple[PodRecord, ...] = ()
    events: tuple[Event, ...] = ()


def follow_manifest(
    job: JobRecord, pods: Iterable[PodRecord], wanted: Job | None, *, file: str, now: float
) -> Change | None:
    """The manifest as it is now; None: it is gone. Returns None if there is nothing to do (JOBS 13)."""
    pods = list(pods)
    if job.owner and wanted is None and job.state is JobState.REPLACED:
        return end(job, pods, JobState.REMOVED, now=now)  # its CronJob does not want the next run either
    if job.state is not JobState.CURRENT:
        return None  # on its way out: the newest content counts when it is gone
    if wanted is None:
        return end(job, pods, JobState.REMOVED, now=now)
    match judge_edit(job, wanted, active=sum(pod.live for pod in pods)):
        case Edit.REPLACES:
            return end(job, pods, JobState.REPLACED, now=now)
        case Edit.IN_PLACE:
            new = edited(job, wanted, file=file)
            return Change(job=new, pods=tuple(cut(new, pods)))
        case Edit.NONE:
            return None if job.file == file else Change(job=replace(job, file=file))


def end(job: JobRecord, pods: Iterable[PodRecord], state: JobState, *, now: float) -> Change:
    """The Job goes, with all its pods; what has no outcome yet counts nowhere."""
    mark = Mark.JOB_REPLACED if state is JobState.REPLACED else Mark.JOB_REMOVED
    gone, events = [], []
    for pod in pods:
        if pod.gone or (pod.mark is not None and pod.outcome is not None):
            continue
        if pod.mark is None:
            events.append(Event(type="Normal", reason="SuccessfulDelete", message=f"Deleted pod: {pod.name}"))
        gone.append(
            replace(
                pod,
                mark=pod.mark or mark,
                marked_at=now if pod.marked_at is None else pod.marked_at,
                outcome=pod.outcome or Outcome.DROPPED,
                outcome_at=now if pod.outcome_at is None else pod.outcome_at,
            )
        )
    return Change(job=replace(job, state=state), pods=tuple(gone), events=tuple(events))


def expiry(job: JobRecord) -> float | None:
    """When the TTL of a finished Job is over (JOBS 10.3)."""
    ttl, finished = job.job.spec.ttl_seconds_after_finished, job.finished
    if ttl is None or finished is None or job.state is not JobState.CURRENT:
        return None
    return finished.at + ttl


def suspend(job: JobRecord, *, suspended: bool) -> Change | None:
    """By command: wins over the manifest until its word on this changes (`edits.kept_suspend`)."""
    return None if job.suspended == suspended else Change(job=replace(job, suspend=suspended))


def restart(job: JobRecord, pods: Iterable[PodRecord], *, now: float) -> Change | None:
    """By command: another run, with a uid of its own, when all pods are gone; as suspended as the manifest says."""
    fresh = replace(job, suspend=None)
    if job.state in (JobState.CURRENT, JobState.EXPIRED):
        return end(fresh, pods, JobState.REPLACED, now=now)
    return None if fresh == job else Change(job=fresh)


def delete_pod(job: JobRecord, pod: PodRecord, *, mark: Mark, now: float) -> Change | None:
    """Somebody, or the host, wants one pod gone. A pod that has ended is only cleaned away."""
    if pod.mark is not None or pod.gone:
        return None
    return Change(job=job, pods=(replace(pod, mark=mark, marked_at=now),))
