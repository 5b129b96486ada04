"""CronJobs in virtual time: JOBS 14 and rows 48 to 57 of its test table."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from minikubelet.api.batch import CronJob, CronJobStatus
from minikubelet.store.job_records import JobState
from tests.unit.jobs.lab import EPOCH, Killed, Lab, Script, cron_manifest, lab, manifest

pytestmark = pytest.mark.looptime

#: A whole minute, and 20 s before it.
MINUTE = 28_333_334 * 60
START = MINUTE - 20.0
FIRST = 20.0
EVERY_MINUTE: dict[str, Any] = {"schedule": "* * * * *"}


def cron(here: Lab) -> CronJob:
    (found,) = here.controller.roster.shown_cronjobs()
    return found


def status(here: Lab) -> CronJobStatus:
    found = cron(here).status
    assert found is not None
    return found


def minutes(here: Lab) -> list[int]:
    """Minutes after the first mark of the Jobs that exist."""
    return sorted(int(name.rpartition("-")[2]) - MINUTE // 60 for name in here.names())


async def test_row_48_allow_runs_jobs_side_by_side() -> None:
    async with lab(Script(work=90), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "timeZone": "Europe/Berlin"}))
        await here.until(FIRST - 1)
        assert here.names() == []
        await here.until(FIRST + 65)
        assert minutes(here) == [0, 1]
        assert len(here.live) == 2
        assert [reference.name for reference in status(here).active] == here.names()
        assert status(here).last_schedule_time == "2023-11-14T22:15:00Z"
        job = here.job(here.names()[0])
        text = job.metadata.annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert text == "2023-11-14T23:14:00+01:00"
        assert datetime.fromisoformat(text).timestamp() == MINUTE
        owner = job.metadata.owner_references[0]
        assert (owner.kind, owner.name, owner.uid, owner.controller) == ("CronJob", "c", cron(here).metadata.uid, True)


async def test_without_a_zone_the_annotation_is_utc_and_the_hosts_zone_schedules() -> None:
    async with lab(epoch=START, local_zone=ZoneInfo("Europe/Berlin")) as here:
        here.put(cron_manifest({"schedule": "14 23 * * *"}))
        await here.until(FIRST + 5)
        (name,) = here.names()
        annotations = here.job(name).metadata.annotations
        assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2023-11-14T22:14:00Z"


async def test_row_49_forbid_starts_the_missed_minute_when_the_running_job_ends() -> None:
    async with lab(Script(work=70), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "concurrencyPolicy": "Forbid"}))
        await here.until(FIRST + 65)
        assert minutes(here) == [0]
        assert status(here).last_schedule_time == "2023-11-14T22:14:00Z"
        await here.until(FIRST + 72)
        assert minutes(here) == [0, 1]
        assert len(here.live) == 1
        events = here.events(cron(here).metadata.uid)
        assert events == ["SuccessfulCreate", "JobAlreadyActive", "SawCompletedJob", "SuccessfulCreate"]


async def test_row_50_replace_removes_the_running_job() -> None:
    async with lab(Script(work=600, stopping=3), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "concurrencyPolicy": "Replace"}))
        await here.until(FIRST + 61)
        assert len(here.live) == 2  # the old one is given its grace
        await here.until(FIRST + 65)
        assert minutes(here) == [1]
        assert len(here.live) == 1
        assert "MissingJob" not in here.events(cron(here).metadata.uid)


@pytest.mark.parametrize("commits", range(1, 6))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_row_50_a_kill_while_replacing_leaves_one_job_that_runs(commits: int, when: str) -> None:
    async with lab(Script(work=600, stopping=3), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "concurrencyPolicy": "Replace"}))
        await here.until(FIRST + 30)
        left = commits

        def interrupt(moment: str) -> None:
            nonlocal left
            if moment == when:
                left -= 1
                if left == 0:
                    raise Killed
            current = [job for job in here.books().jobs if job.state is JobState.CURRENT]
            assert len(current) <= 1

        here.interrupt = interrupt
        await here.until(FIRST + 62)
        await here.restart()
        await here.until(FIRST + 80)
        assert minutes(here) == [1]
        assert len(here.live) == 1


@pytest.mark.parametrize(("deadline", "expected"), [(None, [2]), (5, []), (100, [2])])
async def test_row_51_after_suspension_at_most_the_latest_instant_is_caught_up(
    deadline: int | None, expected: list[int]
) -> None:
    spec = EVERY_MINUTE | ({} if deadline is None else {"startingDeadlineSeconds": deadline})
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest({**spec, "suspend": True}))
        await here.until(FIRST + 150)
        assert here.names() == []
        here.put(cron_manifest(spec))
        await here.until(FIRST + 152)
        assert minutes(here) == expected


async def test_row_51_after_downtime_too() -> None:
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 5)
        await here.kill()
        await here.until(FIRST + 200)
        await here.start()
        await here.until(FIRST + 202)
        assert minutes(here) == [0, 3]


async def test_row_52_many_missed_times_are_said_and_one_job_starts() -> None:
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "suspend": True}))
        await here.until(1)
        await here.kill()
        here.connection.execute("UPDATE cronjobs SET last_schedule_time = ?, reference_at = 0", (MINUTE - 3 * 3600,))
        here.connection.commit()
        here.put(cron_manifest(EVERY_MINUTE))
        await here.start()
        await here.until(5)
        assert minutes(here) == [-1]
        assert here.events(cron(here).metadata.uid) == ["TooManyMissedTimes", "SuccessfulCreate", "SawCompletedJob"]


async def test_row_53_history_limits_count_complete_and_failed_apart() -> None:
    codes = iter([0, 1, 0, 1])
    spec = {**EVERY_MINUTE, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1}
    async with lab(lambda _: Script(code=next(codes)), epoch=START) as here:
        here.put(cron_manifest(spec, job={"backoffLimit": 0}))
        await here.until(FIRST + 190)
        here.put(cron_manifest({**spec, "suspend": True}, job={"backoffLimit": 0}))
        await here.until(FIRST + 200)
        assert minutes(here) == [2, 3]
        assert len(here.runner.pods) == 2
        assert status(here).last_successful_time == "2023-11-14T22:16:01Z"


async def test_a_history_limit_of_0_keeps_none_and_a_minute_never_starts_twice() -> None:
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "successfulJobsHistoryLimit": 0}))
        await here.until(FIRST + 30)
        assert here.names() == []
        assert len(here.runner.started) == 1
        await here.restart()
        await here.until(FIRST + 50)
        assert len(here.runner.started) == 1


async def test_row_55_a_starting_deadline_of_0_starts_nothing() -> None:
    async with lab(epoch=START) as here:
        here.put(cron_manifest({**EVERY_MINUTE, "startingDeadlineSeconds": 0}))
        await here.until(150)
        assert here.names() == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_row_56_a_kill_around_the_start_gives_one_job_for_the_minute(when: str) -> None:
    async with lab(Script(work=5), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST - 1)
        killed = False

        def interrupt(moment: str) -> None:
            nonlocal killed
            if moment == when and not killed:
                killed = True
                raise Killed

        here.interrupt = interrupt
        await here.until(FIRST + 1)
        assert killed
        await here.restart()
        await here.until(FIRST + 20)
        assert minutes(here) == [0]
        assert len(here.runner.started) == 1


async def test_row_57_a_removed_cronjob_takes_its_jobs_and_pods_along() -> None:
    async with lab(Script(work=600, stopping=3), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 5)
        here.remove()
        await here.until(FIRST + 6)
        assert len(here.controller.roster.shown_cronjobs()) == 1
        await here.until(FIRST + 10)
        assert not here.controller.roster.shown_cronjobs()
        assert here.names() == []
        assert not here.runner.pods
        found = here.books()
        assert not found.crons
        assert not found.jobs


async def test_a_cronjob_that_is_put_back_is_a_new_one() -> None:
    async with lab(Script(work=600, stopping=3), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 5)
        old = cron(here).metadata.uid
        here.remove()
        await here.until(FIRST + 6)
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 12)
        assert cron(here).metadata.uid != old
        assert status(here).last_schedule_time is None


async def test_an_edited_schedule_catches_nothing_up_and_keeps_the_jobs() -> None:
    async with lab(Script(work=600), epoch=START) as here:
        here.put(cron_manifest({"schedule": "0 0 1 1 *"}))
        await here.until(FIRST + 130)
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 131)
        assert here.names() == []
        await here.until(FIRST + 185)
        assert minutes(here) == [3]
        here.put(cron_manifest({"schedule": "0 0 1 1 *"}))
        await here.until(FIRST + 190)
        assert minutes(here) == [3]


async def test_an_edited_template_is_for_later_jobs() -> None:
    async with lab(Script(work=600), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 5)
        here.put(cron_manifest(EVERY_MINUTE, pod={"terminationGracePeriodSeconds": 7}))
        await here.until(FIRST + 65)
        assert [pod.spec.termination_grace_period_seconds for pod in here.runner.started] == [30, 7]


async def test_two_instants_of_one_minute_are_one_job() -> None:
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest({"schedule": "@every 30s", "successfulJobsHistoryLimit": 9}))
        await here.until(FIRST + 300)
        numbers = minutes(here)
        assert len(numbers) == len(set(numbers))
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert len(numbers) >= 5


async def test_a_name_that_is_somebody_elses_is_not_taken() -> None:
    async with lab(Script(work=600), epoch=START) as here:
        here.put(manifest(name=f"c-{MINUTE // 60}"), file="other.yaml")
        here.put(cron_manifest(EVERY_MINUTE))
        await here.until(FIRST + 30)
        assert len(here.names()) == 1
        assert status(here).last_schedule_time is None
        assert here.events(cron(here).metadata.uid) == ["FailedCreate"]


async def test_a_schedule_that_never_occurs_is_said_once() -> None:
    async with lab(epoch=START) as here:
        here.put(cron_manifest({"schedule": "59 23 31 2 *"}))
        await here.until(200)
        await here.until(400)
        assert here.events(cron(here).metadata.uid) == ["InvalidSchedule"]


async def test_ttl_works_on_a_cronjobs_jobs() -> None:
    async with lab(Script(work=1), epoch=START) as here:
        here.put(cron_manifest(EVERY_MINUTE, job={"ttlSecondsAfterFinished": 0}))
        await here.until(FIRST + 30)
        assert here.names() == []
        assert not here.books().jobs
        assert status(here).last_successful_time is not None
        events = here.events(cron(here).metadata.uid)
        assert events == ["SuccessfulCreate", "SawCompletedJob"]


def test_the_labs_clock_begins_where_it_says() -> None:
    assert EPOCH % 60 == 20
    assert START % 60 == 40
