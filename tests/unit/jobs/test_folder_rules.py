"""What edits, removals and crashes do to Jobs: JOBS 12, 13 and rows 39 to 46 of its test table, in virtual time."""

from __future__ import annotations

import pytest

from minikubelet.api.decode import decode_file
from minikubelet.store.job_records import JobState, Outcome
from tests.unit.jobs.lab import EPOCH, Killed, Script, lab, manifest
from tests.unit.jobs.test_retries import COMPLETE, failed

pytestmark = pytest.mark.looptime

OTHER = {"terminationGracePeriodSeconds": 7}
THIRD = {"terminationGracePeriodSeconds": 8}


async def test_row_39_a_running_pod_is_taken_up_again() -> None:
    async with lab(Script(work=10)) as here:
        here.put(manifest())
        await here.until(3)
        before = here.books().jobs[0]
        await here.restart()
        await here.until(11)
        assert len(here.runner.started) == 1
        assert here.conditions() == COMPLETE
        after = here.books().jobs[0]
        assert (after.uid, after.start_time, after.created_at) == (before.uid, before.start_time, before.created_at)


async def test_row_40_an_exit_while_the_daemon_is_down_is_counted_once_and_with_its_own_time() -> None:
    async with lab(Script(work=3, code=1)) as here:
        here.put(manifest())
        await here.until(1)
        await here.kill()
        await here.until(8)
        await here.start()
        await here.until(9)
        assert here.counts()["failed"] == 1
        assert len(here.runner.started) == 1
        await here.until(14)
        assert [at - EPOCH for at in here.runner.start_times.values()] == pytest.approx([0, 13])


async def test_row_42_a_kill_during_back_off_changes_nothing() -> None:
    async with lab(Script(work=1, code=1), base=20) as here:
        here.put(manifest())
        await here.until(10)
        await here.restart()
        await here.until(20.9)
        assert len(here.runner.started) == 1
        await here.until(21.2)
        assert len(here.runner.started) == 2


async def test_row_43_a_kill_after_failure_target_changes_no_count() -> None:
    async with lab(Script(work=60, stopping=5)) as here:
        here.put(manifest({"activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2}))
        await here.until(4)
        assert here.conditions() == [("FailureTarget", "DeadlineExceeded")]
        await here.restart()
        await here.until(4.5)
        assert here.counts()["failed"] == 2
        assert here.counts()["terminating"] == 2
        await here.until(10)
        assert here.conditions() == failed("DeadlineExceeded")
        assert here.counts()["failed"] == 2


async def test_a_deadline_that_passed_while_the_daemon_was_down_is_applied_at_start() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest({"activeDeadlineSeconds": 30}))
        await here.until(3)
        await here.kill()
        await here.until(50)
        await here.start()
        await here.until(50.5)
        assert here.conditions() == failed("DeadlineExceeded")


async def test_a_pod_that_finished_before_the_deadline_that_passed_while_down_counts_first() -> None:
    async with lab(Script(work=10)) as here:
        here.put(manifest({"activeDeadlineSeconds": 30}))
        await here.until(3)
        await here.kill()
        await here.until(50)
        await here.start()
        await here.until(51)
        assert here.counts()["succeeded"] == 1


async def test_row_44_an_immutable_edit_runs_the_new_content_when_the_old_is_gone() -> None:
    async with lab(Script(work=60, stopping=4)) as here:
        here.put(manifest({"parallelism": 2, "completions": 2}))
        await here.until(5)
        old = here.job().metadata.uid
        here.put(manifest({"parallelism": 2, "completions": 2}, pod=OTHER))
        await here.until(8.9)
        assert here.job().metadata.uid == old
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 2, "succeeded": 0, "failed": 0}
        assert len(here.runner.started) == 2
        await here.until(9.5)
        job = here.job()
        assert job.metadata.uid != old
        assert job.metadata.generation == 2
        assert here.counts() == {"active": 2, "ready": 2, "terminating": 0, "succeeded": 0, "failed": 0}
        assert here.conditions() == []
        assert [pod.spec.termination_grace_period_seconds for pod in here.live] == [7, 7]
        assert {pod.job_uid for pod in here.books().pods} == {job.metadata.uid}


async def test_only_the_newest_edit_counts_and_going_back_does_not_bring_the_old_run_back() -> None:
    async with lab(Script(work=60, stopping=4)) as here:
        here.put(manifest())
        await here.until(5)
        old = here.job().metadata.uid
        here.put(manifest(pod=OTHER))
        await here.until(6)
        here.put(manifest(pod=THIRD))
        await here.until(7)
        here.put(manifest())
        await here.until(10)
        assert here.job().metadata.uid != old
        assert here.job().metadata.generation == 2
        assert len(here.runner.started) == 2
        assert here.live[0].spec.termination_grace_period_seconds == 30


async def test_an_edit_while_the_daemon_was_down_does_the_same() -> None:
    async with lab(Script(work=60, stopping=4)) as here:
        here.put(manifest())
        await here.until(5)
        await here.kill()
        here.put(manifest(pod=OTHER))
        await here.start()
        await here.until(10)
        assert here.job().metadata.generation == 2
        assert len(here.live) == 1


async def test_row_45_a_finished_job_runs_again_only_for_new_content() -> None:
    async with lab() as here:
        here.put(manifest())
        await here.until(3)
        first = here.job()
        here.put("# touched\n" + manifest())
        here.put(manifest({"backoffLimit": 3}))
        await here.until(6)
        assert here.job().status == first.status
        await here.restart()
        await here.until(9)
        assert len(here.runner.started) == 1
        here.put(manifest({"backoffLimit": 3}, pod=OTHER))
        await here.until(12)
        assert here.job().metadata.uid != first.metadata.uid
        assert here.conditions() == COMPLETE
        assert len(here.runner.started) == 2
        here.remove()
        await here.until(13)
        assert here.names() == []
        assert not here.runner.pods
        assert not here.books().jobs
        assert not here.books().pods


def test_row_46_an_invalid_edit_is_an_error_of_the_file() -> None:
    text = manifest(pod={"restartPolicy": "Always"})
    (error,) = decode_file("job.yaml", text.encode(), node_name="node").errors
    assert error.path == "spec.template.spec.restartPolicy"
    assert error.message == 'Required value: valid values: "OnFailure", "Never"'


async def test_a_removed_job_stops_its_pods_and_adds_no_condition() -> None:
    async with lab(Script(work=60, stopping=3)) as here:
        here.put(manifest({"parallelism": 2, "completions": 2}))
        await here.until(2)
        here.remove()
        await here.until(3)
        assert here.conditions() == []
        assert here.counts()["terminating"] == 2
        assert {pod.outcome for pod in here.books().pods} == {Outcome.DROPPED}
        await here.until(6)
        assert here.names() == []
        assert not here.books().jobs


async def test_a_job_that_is_put_back_waits_until_the_first_is_gone() -> None:
    async with lab(Script(work=60, stopping=3)) as here:
        here.put(manifest())
        await here.until(2)
        old = here.job().metadata.uid
        here.remove()
        await here.until(3)
        here.put(manifest())
        await here.until(4.9)
        assert here.job().metadata.uid == old
        assert len(here.runner.started) == 1
        await here.until(6)
        assert here.job().metadata.uid != old
        assert here.job().metadata.generation == 1
        assert here.counts()["active"] == 1


async def test_a_removal_that_was_under_way_goes_on_after_a_crash() -> None:
    async with lab(Script(work=60, stopping=3)) as here:
        here.put(manifest())
        await here.until(2)
        here.remove()
        await here.until(3)
        await here.restart()
        await here.until(6)
        assert not here.books().jobs
        assert not here.runner.pods


async def test_mutable_fields_apply_at_once_and_may_fail_the_job() -> None:
    async with lab(Script(work=2, code=1), base=1) as here:
        here.put(manifest({"backoffLimit": 6}))
        await here.until(6)
        assert here.counts()["failed"] == 2
        uid = here.job().metadata.uid
        here.put(manifest({"backoffLimit": 1}))
        await here.until(6.1)
        assert here.conditions()[0] == ("FailureTarget", "BackoffLimitExceeded")
        assert here.job().metadata.uid == uid


async def test_labels_and_annotations_of_the_job_are_shown_and_restart_nothing() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        await here.until(1)
        here.put(manifest().replace('"name":"j"', '"name":"j","labels":{"a":"b"}'))
        await here.until(2)
        assert here.job().metadata.labels == {"a": "b"}
        assert len(here.runner.started) == 1


async def test_a_suspended_job_takes_new_resources_and_labels_in_place() -> None:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    more = {"containers": [{**container, "resources": {"limits": {"memory": "64Mi"}}}]}
    async with lab() as here:
        here.put(manifest({"suspend": True}))
        await here.until(1)
        uid = here.job().metadata.uid
        here.put(manifest({"suspend": True}, pod=more))
        await here.until(2)
        here.put(manifest({"suspend": False}, pod=more))
        await here.until(5)
        assert here.job().metadata.uid == uid
        assert here.runner.started[0].spec.containers[0].resources.limits == {"memory": "64Mi"}
        assert here.conditions()[-1][0] == "Complete"
        here.put(manifest({"suspend": False}))
        await here.until(8)
        assert here.job().metadata.uid != uid


async def test_counters_that_something_else_spoiled_are_corrected_from_the_pods_rows() -> None:
    async with lab(Script(code=1)) as here:
        here.put(manifest())
        await here.until(3)
        await here.kill()
        here.connection.execute("UPDATE jobs SET failed = 5, succeeded = 3")
        here.connection.commit()
        await here.start()
        await here.until(4)
        assert here.counts()["failed"] == 1
        assert here.books().jobs[0].failed == 1


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", range(7))
async def test_a_kill_at_any_commit_loses_nothing_and_counts_nothing_twice(moment: str, commit: int) -> None:
    codes = iter([1, 0, 0, 1, 0, 0])
    async with lab(lambda _: Script(work=1, code=next(codes)), base=1) as here:
        seen = 0

        def interrupt(when: str) -> None:
            nonlocal seen
            if when == moment:
                seen += 1
                if seen == commit + 1:
                    raise Killed

        here.interrupt = interrupt
        here.put(manifest({"parallelism": 2, "completions": 3}))
        await here.until(2)
        for _ in range(20):
            if here._task is not None and here._task.done():
                await here.restart()
            await here.until(here.now + 1)
        assert seen > commit
        assert here.conditions() == COMPLETE
        pods = here.books().pods
        assert here.counts()["succeeded"] == 3
        assert here.counts()["failed"] == sum(pod.outcome is Outcome.FAILED for pod in pods)
        assert len(here.runner.started) == len(pods)
        assert here.books().jobs[0].state is JobState.CURRENT
