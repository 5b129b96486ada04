"""What Jobs and CronJobs show of themselves: the objects with their status (JOBS 2, 4, 10, 14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from minikubelet.api.batch import (
    CronJob,
    CronJobStatus,
    Job,
    JobCondition,
    JobStatus,
    ObjectReference,
    is_indexed,
    managed_here,
)
from minikubelet.api.labels import JOB_UID_LABELS
from minikubelet.api.scheduling import LabelSelector
from minikubelet.jobs.counting import succeeded
from minikubelet.jobs.cron import is_active
from minikubelet.jobs.moments import is_ready
from minikubelet.jobs.pods import generated_labels
from minikubelet.lifecycle.times import rfc3339
from minikubelet.store.job_records import Condition, CronRecord, JobRecord, PodRecord


def shown_job(record: JobRecord, pods: Iterable[PodRecord]) -> Job:
    """The Job as people see it: what was generated for it included."""
    spec = record.job.spec
    labels = generated_labels(record)
    template = replace(
        spec.template, metadata=replace(spec.template.metadata, labels={**spec.template.metadata.labels, **labels})
    )
    selector = spec.selector
    if selector is None and not spec.manual_selector:
        selector = LabelSelector(match_labels={JOB_UID_LABELS[0]: record.uid})
    metadata = replace(
        record.job.metadata,
        uid=record.uid,
        creation_timestamp=rfc3339(record.created_at),
        generation=record.generation,
        labels=record.job.metadata.labels or template.metadata.labels,
    )
    spec = replace(spec, template=template, selector=selector, suspend=record.suspended)
    return replace(record.job, metadata=metadata, spec=spec, status=_status(record, list(pods)))


def _status(record: JobRecord, pods: Sequence[PodRecord]) -> JobStatus:
    spec = record.job.spec
    if not managed_here(spec):
        return JobStatus()
    over = record.finished is not None
    live = [] if over else [pod for pod in pods if pod.live]
    return JobStatus(
        conditions=tuple(_condition(each) for each in record.conditions),
        start_time=_time(record.start_time),
        completion_time=_time(record.completion_time),
        active=len(live),
        ready=sum(is_ready(pod) for pod in live),
        terminating=0 if over else sum(pod.terminating for pod in pods),
        succeeded=succeeded(record),
        failed=record.failed,
        completed_indexes=str(record.completed) if is_indexed(spec) else "",
        failed_indexes=str(record.failed_indexes) if spec.backoff_limit_per_index is not None else None,
        uncounted_terminated_pods={},
    )


def _condition(condition: Condition) -> JobCondition:
    at = rfc3339(condition.at)
    return JobCondition(
        type=condition.type,
        status=condition.status,
        last_probe_time=at,
        last_transition_time=at,
        reason=condition.reason,
        message=condition.message,
    )


def shown_cronjob(record: CronRecord, children: Iterable[JobRecord]) -> CronJob:
    active = tuple(
        ObjectReference(api_version="batch/v1", kind="Job", namespace=job.namespace, name=job.name, uid=job.uid)
        for job in children
        if is_active(job)
    )
    metadata = replace(record.cron.metadata, uid=record.uid, creation_timestamp=rfc3339(record.created_at))
    status = CronJobStatus(
        active=active,
        last_schedule_time=_time(record.last_schedule_time),
        last_successful_time=_time(record.last_successful_time),
    )
    return replace(record.cron, metadata=metadata, status=status)


def _time(at: float | None) -> str | None:
    return None if at is None else rfc3339(at)
