"""The Jobs' books: what is written comes back, and nothing is written twice (JOBS 12)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from minikubelet.api.batch import CronJob, CronJobSpec, Job, JobSpec
from minikubelet.api.index_set import IndexSet
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.store import jobs as books
from minikubelet.store.database import open_store
from minikubelet.store.durable import commit_all
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
from minikubelet.store.jobs import PodChange, StaleError
from minikubelet.store.schema import migrate

JOB = JobRecord(
    uid="job",
    job=Job(
        metadata=ObjectMeta(name="j", namespace="default"),
        spec=JobSpec(completion_mode="Indexed", completions=5, parallelism=2, backoff_limit_per_index=1),
    ),
    created_at=1.25,
    file="a.yaml",
)
POD = PodRecord(uid="pod", job_uid="job", namespace="default", name="j-0-abcde", created_at=2.5, index=0, pod=Pod())


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level="IMMEDIATE")
    opened.execute("PRAGMA foreign_keys = ON")
    migrate(opened, path="memory")
    books.insert_job(opened, JOB)
    opened.commit()
    yield opened
    opened.close()


def add(connection: sqlite3.Connection, *pods: PodRecord) -> None:
    changes = [PodChange(None, pod) for pod in pods]
    books.write_job(connection, before=JOB, after=JOB, pods=changes, now=3.0)


def test_a_job_comes_back_as_it_was(connection: sqlite3.Connection) -> None:
    after = replace(
        JOB,
        generation=3,
        state=JobState.REPLACED,
        suspend=True,
        start_time=2.125,
        completion_time=9.5,
        succeeded_pods=2,
        failed=4,
        completed=IndexSet.parse("0-2"),
        failed_indexes=IndexSet.parse("3"),
        conditions=(Condition(type="Failed", status="True", reason="R", message="m", at=9.5),),
        failure_times=(3.5, 4.5),
        success_time=3.25,
        indexes={3: IndexRecord(failures=2, ignored=1, finished_at=4.5)},
        owner="cron",
    )
    books.write_job(connection, before=JOB, after=after, now=5.0)
    assert books.load(connection).jobs == [after]
    without = replace(after, indexes={})
    books.write_job(connection, before=after, after=without, now=6.0)
    assert books.load(connection).jobs == [without]


def test_a_pod_comes_back_as_it_was(connection: sqlite3.Connection) -> None:
    add(connection, POD)
    assert books.load(connection).pods == [POD]
    after = replace(
        POD,
        mark=Mark.OPERATOR,
        marked_at=3.5,
        outcome=Outcome.IGNORED,
        outcome_at=4.5,
        phase="Failed",
        exit_codes={"main": 3},
        cut=True,
    )
    books.write_job(connection, before=JOB, after=JOB, pods=[PodChange(POD, after)], now=5.0)
    assert books.load(connection).pods == [after]


def test_an_outcome_is_written_once_and_takes_its_transaction_with_it(connection: sqlite3.Connection) -> None:
    add(connection, POD)
    connection.commit()
    counted = replace(POD, outcome=Outcome.FAILED)

    def count(c: sqlite3.Connection) -> None:
        books.write_job(c, before=JOB, after=replace(JOB, failed=1), pods=[PodChange(POD, counted)], now=5.0)

    first, second = commit_all(connection, [count, count])
    assert first is None
    assert isinstance(second.error, StaleError)
    (job,) = books.load(connection).jobs
    assert job.failed == 1


def test_an_index_has_one_open_pod(connection: sqlite3.Connection) -> None:
    twin = replace(POD, uid="twin", name="j-0-fghjk")
    add(connection, POD)
    with pytest.raises(sqlite3.IntegrityError):
        add(connection, twin)
    counted = replace(POD, outcome=Outcome.FAILED)
    books.write_job(connection, before=JOB, after=JOB, pods=[PodChange(POD, counted)], now=5.0)
    add(connection, twin)


def test_names_of_pods_and_jobs_are_taken_once(connection: sqlite3.Connection) -> None:
    add(connection, POD)
    with pytest.raises(sqlite3.IntegrityError):
        add(connection, replace(POD, uid="other", index=1))
    with pytest.raises(sqlite3.IntegrityError):
        books.insert_job(connection, replace(JOB, uid="other"))


def test_a_deleted_job_takes_its_rows_along(connection: sqlite3.Connection) -> None:
    add(connection, POD)
    indexed = replace(JOB, indexes={0: IndexRecord(failures=1, ignored=0, finished_at=1.0)})
    event = Event(type="Normal", reason="R", message="m")
    books.write_job(connection, before=JOB, after=indexed, events=[event], now=1.0)
    assert [e.reason for e in books.events_of(connection, "job")] == ["R"]
    books.delete_job(connection, "job")
    for table in ("jobs", "job_pods", "job_indexes", "job_events"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608


def test_a_tombstone_keeps_the_job_and_no_pods(connection: sqlite3.Connection) -> None:
    add(connection, POD)
    books.leave_tombstone(connection, JOB)
    found = books.load(connection)
    assert found.jobs == [replace(JOB, state=JobState.TOMBSTONE)]
    assert found.pods == []


def test_only_the_newest_events_are_kept(connection: sqlite3.Connection) -> None:
    events = [Event(type="Normal", reason=str(number), message="") for number in range(250)]
    books.add_events(connection, "job", events, now=1.0)
    books.add_events(connection, "other", events[:1], now=1.0)
    assert [event.reason for event in books.events_of(connection, "job")] == [str(n) for n in range(150, 250)]
    assert len(books.events_of(connection, "other")) == 1


def test_a_scheduled_minute_starts_once(connection: sqlite3.Connection) -> None:
    cron = CronRecord(
        uid="cron",
        cron=CronJob(metadata=ObjectMeta(name="c", namespace="default"), spec=CronJobSpec(schedule="* * * * *")),
        created_at=1.0,
        reference_at=2.0,
        file="c.yaml",
    )
    books.write_cron(connection, cron)
    started = replace(cron, last_schedule_time=120.0, last_successful_time=60.0)
    child = replace(JOB, uid="child", owner="cron", job=replace(JOB.job, metadata=ObjectMeta(name="c-2")))
    books.start_run(connection, started, child, minute=2)
    found = books.load(connection)
    assert found.crons == [started]
    assert {job.uid for job in found.jobs} == {"job", "child"}
    books.delete_job(connection, "child")
    with pytest.raises(sqlite3.IntegrityError):
        books.start_run(connection, started, child, minute=2)
    books.delete_cron(connection, "cron")
    assert books.load(connection).crons == []


def test_a_row_that_cannot_be_read_is_left_out_and_named(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE jobs SET conditions = x'00'")
    found = books.load(connection)
    assert found.jobs == []
    assert found.unreadable[0].startswith("job: ")


def test_the_pods_rows_are_right_where_counters_differ(connection: sqlite3.Connection) -> None:
    pods = [
        replace(POD, outcome=Outcome.SUCCEEDED),
        replace(POD, uid="1", index=1, outcome=Outcome.SUCCEEDED, cut=True),
        replace(POD, uid="2", index=9, outcome=Outcome.SUCCEEDED),
        replace(POD, uid="3", index=2, outcome=Outcome.FAILED),
        replace(POD, uid="4", index=3, outcome=Outcome.DROPPED),
    ]
    right = books.checked(JOB, pods)
    assert (right.succeeded_pods, right.failed, str(right.completed)) == (3, 1, "0")


async def test_durable_work_is_answered_when_it_is_written_and_fails_alone(tmp_path: Path) -> None:
    async with open_store(tmp_path / "db") as store:
        await store.durably(lambda c: books.insert_job(c, JOB))

        async def add_one(number: int) -> None:
            pod = replace(POD, uid=f"p{number % 8}", name=f"j-{number}", index=number)
            change = PodChange(None, pod)
            await store.durably(lambda c: books.write_job(c, before=JOB, after=JOB, pods=[change], now=1.0))

        done = await asyncio.gather(*(add_one(number) for number in range(10)), return_exceptions=True)
        assert [isinstance(result, sqlite3.IntegrityError) for result in done] == [False] * 8 + [True] * 2
        found = await store.durably(books.load)
        assert len(found.pods) == 8
    async with open_store(tmp_path / "db") as store:
        assert len((await store.durably(books.load)).pods) == 8


async def test_a_disk_that_refuses_is_told_to_whoever_asked(tmp_path: Path) -> None:
    async with open_store(tmp_path / "db") as store:
        other = sqlite3.connect(tmp_path / "db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store._connection.execute("PRAGMA busy_timeout = 0")
        with pytest.raises(sqlite3.OperationalError):
            await store.durably(lambda c: books.insert_job(c, JOB))
        other.execute("ROLLBACK")
        other.close()
        await store.durably(lambda c: books.insert_job(c, JOB))


async def test_a_cancelled_wait_undoes_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path / "db") as store:
        waiting = asyncio.ensure_future(store.durably(lambda c: books.insert_job(c, JOB)))
        await asyncio.sleep(0)
        waiting.cancel()
        found = await store.durably(books.load)
        assert found.jobs == [JOB]
