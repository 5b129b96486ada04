"""The books of Jobs and CronJobs in SQLite: what is written together, and what is read at start (JOBS 12).

Every function takes the connection and runs inside a transaction that its caller has begun (`durable`). `jobs/` decides
what to write. A pod's outcome is written once: a write that finds the row otherwise than expected raises StaleError, so
the whole transaction, counters included, is undone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from minikubelet.api.batch import is_indexed
from minikubelet.api.index_set import IndexSet
from minikubelet.lifecycle.actions import Event
from minikubelet.store.job_records import (
    CronRecord,
    IndexRecord,
    JobRecord,
    JobState,
    Outcome,
    PodRecord,
)
from minikubelet.store.job_rows import (
    CRON_COLUMNS,
    JOB_COLUMNS,
    POD_COLUMNS,
    Row,
    as_json,
    cron_of,
    job_of,
    job_row,
    pod_of,
)

_MOST_EVENTS = 100

T = TypeVar("T")


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
    marks = ", ".join("?" * len(JOB_COLUMNS.split(",")))
    connection.execute(f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES ({marks})", job_row(job))  # noqa: S608


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
        names = JOB_COLUMNS.split(", ")[1:]
        assigned = ", ".join(f"{name.strip()} = ?" for name in names)
        row = job_row(after)
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
            as_json(cron.cron),
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
        connection.execute(f"SELECT {JOB_COLUMNS} FROM jobs ORDER BY created_at, uid"),  # noqa: S608
        lambda row: job_of(row, indexes.get(row[0], {})),
        unreadable,
    )
    pods = _readable(
        connection.execute(f"SELECT {POD_COLUMNS} FROM job_pods ORDER BY created_at, uid"),  # noqa: S608
        pod_of,
        unreadable,
    )
    crons = _readable(
        connection.execute(f"SELECT {CRON_COLUMNS} FROM cronjobs ORDER BY created_at, uid"),  # noqa: S608
        cron_of,
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
                as_json(after.pod),
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
            as_json(after.exit_codes),
            after.cut,
            after.gone,
            after.uid,
            before.outcome.value if before.outcome else None,
        ),
    )
    _expect_one(found, after.name)


def _expect_one(found: sqlite3.Cursor, name: str) -> None:
    if found.rowcount != 1:
        raise StaleError(f"{name} is not in the books as expected")
