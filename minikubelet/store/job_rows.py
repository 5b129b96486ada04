"""How records of Jobs, their pods and CronJobs lie in the tables: columns, and the way there and back.

`store.jobs` writes and reads them; nobody else needs to know.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from minikubelet.api.batch import CronJob, Job
from minikubelet.api.index_set import IndexSet
from minikubelet.api.pod import Pod
from minikubelet.store.job_records import (
    Condition,
    CronRecord,
    IndexRecord,
    JobRecord,
    JobState,
    Mark,
    Outcome,
    PodRecord,
)

Row = tuple[Any, ...]

JOB_COLUMNS = (
    "uid, namespace, name, owner, generation, state, file, job, spec_hash, suspend, created_at, start_time,"
    " completion_time, succeeded, failed, completed, failed_indexes, conditions, failure_times, success_time"
)
POD_COLUMNS = (
    "uid, job_uid, namespace, name, idx, failures, ignored, created_at, pod, mark, marked_at, outcome, outcome_at,"
    " phase, exit_codes, cut, gone"
)


CRON_COLUMNS = "uid, file, cron, created_at, reference_at, last_schedule_time, last_successful_time, removed"


def spec_hash(job: Job) -> str:
    """Over the canonical spec: defaults filled in, keys sorted."""
    return hashlib.sha256(msgspec.json.encode(job.spec, order="sorted")).hexdigest()


def as_json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def job_row(job: JobRecord) -> Row:
    return (
        job.uid,
        job.namespace,
        job.name,
        job.owner,
        job.generation,
        job.state.value,
        job.file,
        as_json(job.job),
        spec_hash(job.job),
        job.suspend,
        job.created_at,
        job.start_time,
        job.completion_time,
        job.succeeded_pods,
        job.failed,
        str(job.completed),
        str(job.failed_indexes),
        as_json(job.conditions),
        as_json(job.failure_times),
        job.success_time,
    )


def job_of(row: Row, indexes: dict[int, IndexRecord]) -> JobRecord:
    return JobRecord(
        uid=row[0],
        owner=row[3],
        generation=row[4],
        state=JobState(row[5]),
        file=row[6],
        job=msgspec.json.decode(row[7], type=Job),
        suspend=None if row[9] is None else bool(row[9]),
        created_at=row[10],
        start_time=row[11],
        completion_time=row[12],
        succeeded_pods=row[13],
        failed=row[14],
        completed=IndexSet.parse(row[15]),
        failed_indexes=IndexSet.parse(row[16]),
        conditions=msgspec.json.decode(row[17], type=tuple[Condition, ...]),
        failure_times=msgspec.json.decode(row[18], type=tuple[float, ...]),
        success_time=row[19],
        indexes=indexes,
    )


def cron_of(row: Row) -> CronRecord:
    return CronRecord(
        uid=row[0],
        file=row[1],
        cron=msgspec.json.decode(row[2], type=CronJob),
        created_at=row[3],
        reference_at=row[4],
        last_schedule_time=row[5],
        last_successful_time=row[6],
        removed=bool(row[7]),
    )


def pod_of(row: Row) -> PodRecord:
    gone = bool(row[16])
    return PodRecord(
        uid=row[0],
        job_uid=row[1],
        namespace=row[2],
        name=row[3],
        index=row[4],
        failures=row[5],
        ignored=row[6],
        created_at=row[7],
        pod=None if gone else msgspec.json.decode(row[8], type=Pod),
        mark=Mark(row[9]) if row[9] else None,
        marked_at=row[10],
        outcome=Outcome(row[11]) if row[11] else None,
        outcome_at=row[12],
        phase=row[13],
        exit_codes=msgspec.json.decode(row[14], type=dict[str, int]),
        cut=bool(row[15]),
        gone=gone,
    )
