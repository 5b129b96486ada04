"""The decision pass of a CronJob: a pure function of its record, its Jobs and the time (JOBS 14).

`cron_worker` calls it when something changed or a moment has come, and commits what it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

import msgspec
from msgspec.structs import replace

from minikubelet.api.batch import FORBID, REPLACE, Job
from minikubelet.api.labels import CRONJOB_SCHEDULED
from minikubelet.api.meta import ObjectMeta, OwnerReference
from minikubelet.api.schedule import ScheduleError, parse_schedule
from minikubelet.api.zones import ZoneError, load_zone
from minikubelet.jobs.occurrences import latest_within, next_after
from minikubelet.lifecycle.actions import Event
from minikubelet.store.job_records import CronRecord, JobRecord, JobState

_MANY_MISSED = 100
#: Seconds after a scheduled moment at which it is looked at.
_AFTER_MOMENT = 0.1


class CronDecision(msgspec.Struct, frozen=True, kw_only=True):
    cron: CronRecord
    #: Jobs to be removed: beyond the history limits, or replaced.
    remove: tuple[JobRecord, ...] = ()
    #: The scheduled moment that a new Job is to be made for.
    start: int | None = None
    events: tuple[Event, ...] = ()
    wake_at: float | None = None


def decide_cron(cron: CronRecord, jobs: Sequence[JobRecord], *, now: float, local_zone: tzinfo) -> CronDecision:
    """`jobs`: all that this CronJob has made and has not asked to be removed."""
    cron = _with_success(cron, jobs)
    active = [job for job in jobs if is_active(job)]
    jobs = [job for job in jobs if job.state is JobState.CURRENT]
    surplus = _history(cron, jobs)
    events = [_event("Normal", "SuccessfulDelete", f"Deleted job {job.name}") for job in surplus]
    decision = CronDecision(cron=cron, remove=tuple(surplus), events=tuple(events))
    if cron.removed or cron.cron.spec.suspend:
        return decision
    try:
        zone = local_zone if cron.cron.spec.time_zone is None else load_zone(cron.cron.spec.time_zone)
    except ZoneError as error:
        return _with_events(decision, _event("Warning", "UnknownTimeZone", str(error)))
    try:
        schedule = parse_schedule(cron.cron.spec.schedule)
    except ScheduleError as error:
        return _with_events(decision, _event("Warning", "UnparseableSchedule", str(error)))
    last = cron.created_at if cron.last_schedule_time is None else cron.last_schedule_time
    anchor = earliest = max(last, cron.reference_at)
    deadline = cron.cron.spec.starting_deadline_seconds
    if deadline is not None:
        earliest = max(earliest, now - deadline)
    coming = next_after(schedule, now, zone, anchor=anchor)
    if coming is None:
        text = f"the schedule {cron.cron.spec.schedule} never occurs"
        decision = _with_events(decision, _event("Warning", "InvalidSchedule", text))
    else:
        decision = replace(decision, wake_at=coming + _AFTER_MOMENT)
    due = latest_within(schedule, earliest, now, zone, anchor=anchor)
    if due is None:
        return decision
    first = next_after(schedule, earliest, zone, anchor=anchor)
    second = None if first is None else next_after(schedule, first, zone, anchor=anchor)
    if first is not None and second is not None and (now - first) // (second - first) + 1 > _MANY_MISSED:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        decision = _with_events(decision, _event("Warning", "TooManyMissedTimes", text))
    if any(job.name == job_name(cron, due) for job in (*jobs, *active)):
        return decision
    if active and cron.cron.spec.concurrency_policy == FORBID:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return _with_events(decision, _event("Normal", "JobAlreadyActive", text))
    if cron.cron.spec.concurrency_policy == REPLACE:
        deleted = [_event("Normal", "SuccessfulDelete", f"Deleted job {job.name}") for job in active]
        decision = _with_events(replace(decision, remove=(*decision.remove, *active)), *deleted)
    return replace(decision, start=due)


def minute_of(moment: int) -> int:
    return moment // 60


def job_name(cron: CronRecord, moment: int) -> str:
    return f"{cron.name}-{minute_of(moment)}"


def scheduled_job(cron: CronRecord, moment: int, *, uid: str, now: float) -> JobRecord:
    """The Job of a scheduled moment."""
    zone = UTC if cron.cron.spec.time_zone is None else load_zone(cron.cron.spec.time_zone)
    text = datetime.fromtimestamp(moment, zone).isoformat().replace("+00:00", "Z")
    return job_from_template(cron, name=job_name(cron, moment), annotations={CRONJOB_SCHEDULED: text}, uid=uid, now=now)


def is_manual(job: JobRecord) -> bool:
    """Whether somebody made it of the CronJob by hand. It counts for the history; the schedule does not heed it."""
    return CRONJOB_SCHEDULED not in job.job.metadata.annotations


def is_active(job: JobRecord) -> bool:
    """Whether the schedule has to heed it: one of its own that has not finished, or is just being restarted."""
    unfinished = job.state is JobState.CURRENT and job.finished is None
    return (unfinished or job.state is JobState.REPLACED) and not is_manual(job)


def job_from_template(
    cron: CronRecord,
    *,
    name: str,
    annotations: dict[str, str],
    uid: str,
    now: float,
    block_owner_deletion: bool | None = True,
) -> JobRecord:
    template = cron.cron.spec.job_template
    owner = OwnerReference(
        api_version=cron.cron.api_version,
        kind="CronJob",
        name=cron.name,
        uid=cron.uid,
        controller=True,
        block_owner_deletion=block_owner_deletion,
    )
    metadata = ObjectMeta(
        name=name,
        namespace=cron.namespace,
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, **annotations},
        owner_references=(owner,),
    )
    job = Job(metadata=metadata, spec=template.spec)
    return JobRecord(uid=uid, job=job, created_at=now, owner=cron.uid)


def _with_success(cron: CronRecord, jobs: Sequence[JobRecord]) -> CronRecord:
    """lastSuccessfulTime: the latest completion of its Jobs."""
    ends = [job.completion_time for job in jobs if job.completion_time is not None]
    latest = max([*ends, *([] if cron.last_successful_time is None else [cron.last_successful_time])], default=None)
    return cron if latest == cron.last_successful_time else replace(cron, last_successful_time=latest)


def _history(cron: CronRecord, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Finished Jobs beyond the limits, Complete and Failed counted apart; the oldest go first."""
    surplus = []
    for kind, limit in (
        ("Complete", cron.cron.spec.successful_jobs_history_limit),
        ("Failed", cron.cron.spec.failed_jobs_history_limit),
    ):
        done = [job for job in jobs if job.condition(kind) is not None]
        done.sort(key=lambda job: (job.start_time or 0.0, job.name))
        surplus += done[: max(0, len(done) - limit)]
    return surplus


def _event(kind: str, reason: str, message: str) -> Event:
    return Event(type=kind, reason=reason, message=message)


def _with_events(decision: CronDecision, *events: Event) -> CronDecision:
    return replace(decision, events=(*decision.events, *events))
