"""The books of Jobs and CronJobs in SQLite: what is written together, and what is read at start (JOBS 12).

Every function takes the connection and runs inside a transaction that its caller has begun (`durable`). `jobs/` decides
what to write. A pod's outcome is written once: a write that finds the row otherwise than expected raises StaleError, so
the whole transaction, counters included, is undone.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from minikubelet.api.batch import CronJob, Job, is_indexed
from minikubelet.api.index_set import IndexSet
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
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

_MOST_EVENTS = 100
_JOB_COLUMNS = (
    "uid, namespace, name, owner, generation, state, file, job, spec_hash, suspend, created_at, start_time,"
    " completion_time, succeeded, failed, completed, failed_indexes, conditions, failure_times, success_time"
)
_POD_COLUMNS = (
    "uid, job_uid, namespace, name, idx, failures, ignored, created_at, pod, mark, marked_at, outcome, outcome_at,"
    " phase, exit_codes, cut, gone"
)


_CRON_COLUMNS = "uid, file, cron, created_at, reference_at, last_schedule_time, last_successful_time, removed"

T = TypeVar("T")
Row = tuple[Any, ...]


class StaleError(Exception):
    """The books say something else than what the decision was made upon: read them again."""


class PodChange(NamedTuple):
    """A pod's record as it was and as it is to be. A new pod was None."""

    before: PodRecord | None
    after: PodRecord


class StoredEvent(msgspec.Struct, frozen=True):
    at: float
    type: str
    reason: str
    message: str


class Books(NamedTuple):
    jobs: list[JobRecord]
    pods: list[PodRecord]
    crons: list[CronRecord]
    #: Uids of rows that cannot be read (after a downgrade, for example), and why.
    unreadable: list[str]


# ---- Jobs ----------------------------------------------------------------------------
def insert_job(connection: sqlite3.Connection, job: JobRecord) -> None:
    """A new Job. Raises sqlite3.IntegrityError while another run of its name is in the books."""
    marks = ", ".join("?" * len(_JOB_COLUMNS.split(",")))
    connection.execute(f"INSERT INTO jobs ({_JOB_COLUMNS}) VALUES ({marks})", _job_row(job))  # noqa: S608


def write_job(
    connection: sqlite3.Connection,
    *,
    before: JobRecord,
    after: JobRecord,
    pods: Iterable[PodChange] = (),
    events: Iterable[Event] = (),
    now: float,
) -> None:
    """One decision, whole. Raises StaleError."""
    if after != before:
        names = _JOB_COLUMNS.split(", ")[1:]
        assigned = ", ".join(f"{name.strip()} = ?" for name in names)
        row = _job_row(after)
        found = connection.execute(f"UPDATE jobs SET {assigned} WHERE uid = ?", (*row[1:], row[0]))  # noqa: S608
        _expect_one(found, after.name)
        _write_indexes(connection, before, after)
    for change in pods:
        _write_pod(connection, change)
    add_events(connection, after.uid, events, now=now)


def delete_job(connection: sqlite3.Connection, uid: str) -> None:
    """The Job with its pods, indexes and events."""
    connection.execute("DELETE FROM jobs WHERE uid = ?", (uid,))
    connection.execute("DELETE FROM job_events WHERE object = ?", (uid,))


def leave_tombstone(connection: sqlite3.Connection, job: JobRecord) -> None:
    """Only what keeps the same content from running again: the pods' rows go."""
    connection.execute("DELETE FROM job_pods WHERE job_uid = ?", (job.uid,))
    connection.execute("DELETE FROM job_indexes WHERE job_uid = ?", (job.uid,))
    connection.execute("UPDATE jobs SET state = ? WHERE uid = ?", (JobState.TOMBSTONE.value, job.uid))


def add_events(connection: sqlite3.Connection, uid: str, events: Iterable[Event], *, now: float) -> None:
    """Events of a Job or CronJob; only the newest are kept."""
    rows = [(uid, now, event.type, event.reason, event.message) for event in events]
    if rows:
        connection.executemany(
            "INSERT INTO job_events (object, at, type, reason, message) VALUES (?, ?, ?, ?, ?)", rows
        )
        connection.execute(
            "DELETE FROM job_events WHERE object = ? AND id NOT IN"
            " (SELECT id FROM job_events WHERE object = ? ORDER BY id DESC LIMIT ?)",
            (uid, uid, _MOST_EVENTS),
        )


def events_of(connection: sqlite3.Connection, uid: str) -> list[StoredEvent]:
    rows = connection.execute("SELECT at, type, reason, message FROM job_events WHERE object = ? ORDER BY id", (uid,))
    return [StoredEvent(*row) for row in rows]


# ---- CronJobs ------------------------------------------------------------------------
def write_cron(connection: sqlite3.Connection, cron: CronRecord) -> None:
    connection.execute(
        "INSERT INTO cronjobs (uid, namespace, name, file, cron, created_at, reference_at, last_schedule_time,"
        " last_successful_time, removed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET"
        " file = excluded.file, cron = excluded.cron, reference_at = excluded.reference_at,"
        " last_schedule_time = excluded.last_schedule_time, last_successful_time = excluded.last_successful_time,"
        " removed = excluded.removed",
        (
            cron.uid,
            cron.namespace,
            cron.name,
            cron.file,
            _json(cron.cron),
            cron.created_at,
            cron.reference_at,
            cron.last_schedule_time,
            cron.last_successful_time,
            cron.removed,
        ),
    )


def start_run(connection: sqlite3.Connection, cron: CronRecord, job: JobRecord, *, minute: int) -> None:
    """The Job of one scheduled minute, its run and lastScheduleTime. Raises sqlite3.IntegrityError if it had one."""
    connection.execute(
        "INSERT INTO cron_runs (cron_uid, minute, job_uid) VALUES (?, ?, ?)", (cron.uid, minute, job.uid)
    )
    insert_job(connection, job)
    write_cron(connection, cron)


def delete_cron(connection: sqlite3.Connection, uid: str) -> None:
    connection.execute("DELETE FROM cronjobs WHERE uid = ?", (uid,))
    connection.execute("DELETE FROM job_events WHERE object = ?", (uid,))


# ---- reading -------------------------------------------------------------------------
def load(connection: sqlite3.Connection) -> Books:
    """Everything, as it was written."""
    indexes: dict[str, dict[int, IndexRecord]] = {}
    for uid, index, failures, ignored, finished_at in connection.execute(
        "SELECT job_uid, idx, failures, ignored, finished_at FROM job_indexes"
    ):
        record = IndexRecord(failures=failures, ignored=ignored, finished_at=finished_at)
        indexes.setdefault(uid, {})[index] = record
    unreadable: list[str] = []
    jobs = _readable(
        connection.execute(f"SELECT {_JOB_COLUMNS} FROM jobs ORDER BY created_at, uid"),  # noqa: S608
        lambda row: _job(row, indexes.get(row[0], {})),
        unreadable,
    )
    pods = _readable(
        connection.execute(f"SELECT {_POD_COLUMNS} FROM job_pods ORDER BY created_at, uid"),  # noqa: S608
        _pod,
        unreadable,
    )
    crons = _readable(
        connection.execute(f"SELECT {_CRON_COLUMNS} FROM cronjobs ORDER BY created_at, uid"),  # noqa: S608
        _cron,
        unreadable,
    )
    return Books(jobs, pods, crons, unreadable)


def _readable(rows: Iterable[Row], read: Callable[[Row], T], unreadable: list[str]) -> list[T]:
    found = []
    for row in rows:
        try:
            found.append(read(row))
        except (msgspec.MsgspecError, ValueError) as error:
            unreadable.append(f"{row[0]}: {error}")
    return found


def checked(job: JobRecord, pods: Sequence[PodRecord]) -> JobRecord:
    """The record with its counters as the pods' rows have them. They are the same unless something broke R3."""
    done = [pod for pod in pods if pod.outcome is Outcome.SUCCEEDED]
    completed = job.completed
    completions = job.job.spec.completions
    if is_indexed(job.job.spec) and completions is not None and job.finished is None:
        indexes = (pod.index for pod in done if pod.index is not None and not pod.cut)
        completed = IndexSet.of(index for index in indexes if index < completions)
    failed = sum(pod.outcome is Outcome.FAILED for pod in pods)
    return msgspec.structs.replace(job, succeeded_pods=len(done), failed=failed, completed=completed)


# ---- rows ----------------------------------------------------------------------------
def spec_hash(job: Job) -> str:
    """Over the canonical spec: defaults filled in, keys sorted."""
    return hashlib.sha256(msgspec.json.encode(job.spec, order="sorted")).hexdigest()


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _job_row(job: JobRecord) -> Row:
    return (
        job.uid,
        job.namespace,
        job.name,
        job.owner,
        job.generation,
        job.state.value,
        job.file,
        _json(job.job),
        spec_hash(job.job),
        job.suspend,
        job.created_at,
        job.start_time,
        job.completion_time,
        job.succeeded_pods,
        job.failed,
        str(job.completed),
        str(job.failed_indexes),
        _json(job.conditions),
        _json(job.failure_times),
        job.success_time,
    )


def _job(row: Row, indexes: dict[int, IndexRecord]) -> JobRecord:
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


def _cron(row: Row) -> CronRecord:
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


def _write_indexes(connection: sqlite3.Connection, before: JobRecord, after: JobRecord) -> None:
    if before.indexes is after.indexes:
        return
    gone = [(after.uid, index) for index in before.indexes.keys() - after.indexes.keys()]
    connection.executemany("DELETE FROM job_indexes WHERE job_uid = ? AND idx = ?", gone)
    new = [
        (after.uid, index, it.failures, it.ignored, it.finished_at)
        for index, it in after.indexes.items()
        if before.indexes.get(index) != it
    ]
    connection.executemany(
        "INSERT OR REPLACE INTO job_indexes (job_uid, idx, failures, ignored, finished_at) VALUES (?, ?, ?, ?, ?)", new
    )


def _write_pod(connection: sqlite3.Connection, change: PodChange) -> None:
    before, after = change
    if before is None:
        connection.execute(
            "INSERT INTO job_pods (uid, job_uid, namespace, name, idx, failures, ignored, created_at, pod)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                after.uid,
                after.job_uid,
                after.namespace,
                after.name,
                after.index,
                after.failures,
                after.ignored,
                after.created_at,
                _json(after.pod),
            ),
        )
        return
    found = connection.execute(
        "UPDATE job_pods SET mark = ?, marked_at = ?, outcome = ?, outcome_at = ?, phase = ?, exit_codes = ?, cut = ?,"
        " gone = ? WHERE uid = ? AND outcome IS ?",
        (
            after.mark.value if after.mark else None,
            after.marked_at,
            after.outcome.value if after.outcome else None,
            after.outcome_at,
            after.phase,
            _json(after.exit_codes),
            after.cut,
            after.gone,
            after.uid,
            before.outcome.value if before.outcome else None,
        ),
    )
    _expect_one(found, after.name)


def _pod(row: Row) -> PodRecord:
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


def _expect_one(found: sqlite3.Cursor, name: str) -> None:
    if found.rowcount != 1:
        raise StaleError(f"{name} is not in the books as expected")
