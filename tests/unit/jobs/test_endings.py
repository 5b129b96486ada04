"""Rows of JOBS 17 about policies, deadlines, suspending, scaling and deleting, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from minikubelet.api.pod import Pod
from minikubelet.store.job_records import Mark
from tests.unit.jobs.lab import SIDECAR, Lab, Script, index_of, lab, manifest
from tests.unit.jobs.test_retries import COMPLETE, failed

pytestmark = pytest.mark.looptime

INDEXED = {"completionMode": "Indexed"}


def rule(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    if container is not None:
        codes["containerName"] = container
    return {"podFailurePolicy": {"rules": [{"action": action, "onExitCodes": codes}]}}


def message(here: Lab, kind: str) -> str:
    status = here.job().status
    assert status is not None
    return next(condition.message for condition in status.conditions if condition.type == kind)


def indexes(here: Lab) -> tuple[str, str | None]:
    status = here.job().status
    assert status is not None
    return status.completed_indexes, status.failed_indexes


async def test_row_23_fail_job_ends_it_at_once_and_names_the_rule() -> None:
    async with lab(Script(code=42)) as here:
        here.put(manifest({"backoffLimit": 6, **rule("FailJob", "In", 42)}))
        await here.until(30)
        assert len(here.runner.started) == 1
        assert here.conditions() == failed("PodFailurePolicy")
        name = here.runner.started[0].metadata.name
        expected = f"Container main for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
        assert message(here, "Failed") == message(here, "FailureTarget") == expected


async def test_row_24_ignored_failures_count_nowhere_but_delay() -> None:
    codes = iter([5, 5, 0])
    async with lab(lambda _: Script(code=next(codes)), base=1) as here:
        here.put(manifest({"backoffLimit": 0, **rule("Ignore", "In", 5)}))
        await here.until(30)
        assert here.conditions() == COMPLETE
        assert here.counts()["failed"] == 0
        starts = [at - here._epoch for at in here.runner.start_times.values()]
        assert starts == pytest.approx([0, 1 + 1, 1 + 1 + 1 + 2])


async def test_row_25_fail_index_gives_up_on_one_index() -> None:
    spec = {"completions": 2, "parallelism": 2, "backoffLimitPerIndex": 3, **INDEXED, **rule("FailIndex", "In", 1)}
    async with lab(lambda pod: Script(code=index_of(pod))) as here:
        here.put(manifest(spec))
        await here.until(60)
        assert [index_of(pod) for pod in here.runner.started] == [0, 1]
        assert indexes(here) == ("0", "1")
        assert here.conditions() == failed("FailedIndexes")


@pytest.mark.parametrize(("container", "runs"), [(None, 1), ("main", 2)])
async def test_row_26_a_killed_sidecar_can_match_unless_the_container_is_named(
    container: str | None, runs: int
) -> None:
    async with lab(Script(code=1, stopping=2, sidecar_code=137)) as here:
        here.put(manifest(rule("FailJob", "In", 137, container=container), pod=SIDECAR))
        await here.until(13.5)
        assert len(here.runner.started) == runs
        if container is None:
            assert here.conditions() == failed("PodFailurePolicy")
            assert message(here, "Failed").startswith("Container sc for pod default/j-")


async def test_row_27_success_policy_by_index() -> None:
    spec = {"completions": 3, "parallelism": 3, **INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
    async with lab(lambda pod: Script(work=600 if index_of(pod) else 1, stopping=1)) as here:
        here.put(manifest(spec))
        await here.until(1.5)
        assert here.conditions() == [("SuccessCriteriaMet", "SuccessPolicy")]
        assert here.counts()["terminating"] == 2
        await here.until(3)
        assert here.conditions() == [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]
        assert message(here, "Complete") == "Matched rules at index 0"
        assert here.counts()["failed"] == 0
        assert indexes(here)[0] == "0"
        assert len(here.runner.pods) == 1


async def test_row_28_success_policy_by_count() -> None:
    spec = {"completions": 5, "parallelism": 5, **INDEXED, "successPolicy": {"rules": [{"succeededCount": 2}]}}
    async with lab(lambda pod: Script(work=1 + 7 * index_of(pod) % 5)) as here:
        here.put(manifest(spec))
        await here.until(30)
        assert here.conditions()[-1] == ("Complete", "SuccessPolicy")
        assert indexes(here)[0] == "0,3"


async def test_row_29_the_deadline_stops_pods_and_fails_the_job_when_they_are_gone() -> None:
    async with lab(Script(work=600, stopping=2)) as here:
        here.put(manifest({"activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2}))
        await here.until(3.5)
        assert here.conditions() == [("FailureTarget", "DeadlineExceeded")]
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 2, "succeeded": 0, "failed": 2}
        await here.until(5.5)
        assert here.conditions() == failed("DeadlineExceeded")
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 0, "succeeded": 0, "failed": 2}
        assert not here.runner.pods


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"activeDeadlineSeconds": 0}, failed("DeadlineExceeded")),
        ({"completions": 0}, COMPLETE),
        ({"completions": 0, "suspend": True}, COMPLETE),
    ],
)
async def test_row_30_jobs_that_end_without_a_pod(spec: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    async with lab() as here:
        here.put(manifest(spec))
        await here.until(1)
        assert here.conditions() == expected
        assert not here.runner.started


async def test_row_31_a_job_created_suspended_starts_when_it_is_resumed() -> None:
    async with lab() as here:
        here.put(manifest({"suspend": True}))
        await here.until(5)
        status = here.job().status
        assert status is not None
        assert status.start_time is None
        assert here.conditions() == [("Suspended", "JobSuspended")]
        assert not here.runner.started
        here.put(manifest({"suspend": False}))
        await here.until(7)
        assert here.conditions() == [("!Suspended", "JobResumed"), *COMPLETE]
        record = here.books().jobs[0]
        assert record.start_time == pytest.approx(here._epoch + 5, abs=0.1)


async def test_row_32_suspending_drops_pods_without_counting_them() -> None:
    async with lab(Script(work=20, stopping=1, code_when_stopped=0)) as here:
        here.put(manifest({"parallelism": 2, "completions": 4}))
        await here.until(5)
        here.put(manifest({"parallelism": 2, "completions": 4, "suspend": True}))
        await here.until(5.5)
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 2, "succeeded": 0, "failed": 0}
        await here.until(10)
        assert not here.runner.pods
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 0, "succeeded": 0, "failed": 0}
        status = here.job().status
        assert status is not None
        assert status.start_time is None
        here.put(manifest({"parallelism": 2, "completions": 4}))
        await here.until(11)
        assert here.counts()["active"] == 2
        assert len(here.runner.started) == 4


async def test_row_33_the_deadline_starts_anew_on_resume() -> None:
    spec = {"activeDeadlineSeconds": 10}
    async with lab(Script(work=9)) as here:
        here.put(manifest(spec))
        await here.until(6)
        here.put(manifest({**spec, "suspend": True}))
        await here.until(60)
        here.put(manifest(spec))
        await here.until(80)
        assert here.conditions()[-1] == ("Complete", "CompletionsReached")


async def test_row_34_lowering_parallelism_drops_pods() -> None:
    async with lab(Script(work=20, stopping=1)) as here:
        here.put(manifest({"completions": 3, "parallelism": 3}))
        await here.until(5)
        uid = here.job().metadata.uid
        here.put(manifest({"completions": 3, "parallelism": 1}))
        await here.until(7)
        assert here.counts() == {"active": 1, "ready": 1, "terminating": 0, "succeeded": 0, "failed": 0}
        assert here.job().metadata.uid == uid
        outcomes = sorted(str(pod.outcome and pod.outcome.value) for pod in here.books().pods)
        assert outcomes == ["None", "dropped", "dropped"]


async def test_row_35_an_indexed_job_is_scaled_down() -> None:
    async with lab(Script(work=20, stopping=1)) as here:
        here.put(manifest({"completions": 4, "parallelism": 4, **INDEXED}))
        await here.until(5)
        here.put(manifest({"completions": 2, "parallelism": 2, **INDEXED}))
        await here.until(7)
        assert {index_of(pod) for pod in here.live} == {0, 1}
        await here.until(30)
        assert here.conditions() == COMPLETE
        assert indexes(here)[0] == "0,1"


async def test_indexes_that_were_cut_off_run_again_when_the_job_is_scaled_up_again() -> None:
    async with lab(lambda pod: Script(work=1 if index_of(pod) in (1, 3) else 20)) as here:
        here.put(manifest({"completions": 4, "parallelism": 4, **INDEXED}))
        await here.until(5)
        assert (indexes(here)[0], here.counts()["succeeded"]) == ("1,3", 2)
        here.put(manifest({"completions": 2, "parallelism": 2, **INDEXED}))
        await here.until(6)
        assert (indexes(here)[0], here.counts()["succeeded"]) == ("1", 1)
        await here.restart()
        here.put(manifest({"completions": 4, "parallelism": 4, **INDEXED}))
        await here.until(9)
        assert indexes(here)[0] == "1,3"
        assert [index_of(pod) for pod in here.runner.started].count(3) == 2
        assert [index_of(pod) for pod in here.runner.started].count(1) == 1


def delete(here: Lab, uid: str, *, mark: Mark = Mark.OPERATOR) -> None:
    worker = next(iter(here.controller.roster.jobs.values()))
    assert worker is not None
    worker.delete_pod(uid, mark=mark)


async def test_row_36_a_pod_deleted_by_hand_is_replaced_by_the_policy() -> None:
    async with lab(Script(work=60, stopping=5, code_when_stopped=0)) as here:
        here.put(manifest())
        await here.until(2)
        delete(here, here.live[0].metadata.uid)
        await here.until(2.5)
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 1, "succeeded": 0, "failed": 1}
        await here.until(12.5)  # the back-off counts from the mark
        assert here.counts() == {"active": 1, "ready": 1, "terminating": 0, "succeeded": 0, "failed": 1}
        here.put(manifest({"podReplacementPolicy": "Failed"}, name="later"), file="later.yaml")


async def test_row_36_under_policy_failed_the_end_of_the_pod_decides() -> None:
    async with lab(Script(work=60, stopping=5, code_when_stopped=1), base=1) as here:
        here.put(manifest({"podReplacementPolicy": "Failed"}))
        await here.until(2)
        delete(here, here.live[0].metadata.uid)
        await here.until(6.5)
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 1, "succeeded": 0, "failed": 0}
        assert len(here.runner.started) == 1
        await here.until(8.5)
        assert here.counts() == {"active": 1, "ready": 1, "terminating": 0, "succeeded": 0, "failed": 1}
        assert len(here.runner.pods) == 1


async def test_row_36_under_policy_failed_a_clean_exit_is_a_success() -> None:
    async with lab(Script(work=60, stopping=5, code_when_stopped=0)) as here:
        here.put(manifest({"podReplacementPolicy": "Failed"}))
        await here.until(2)
        delete(here, here.live[0].metadata.uid)
        await here.until(8)
        assert here.conditions() == COMPLETE
        assert not here.runner.pods


@pytest.mark.parametrize(
    ("action", "mark", "killed", "failed", "pods", "reason"),
    [
        ("Ignore", Mark.HOST, False, 0, 2, "CompletionsReached"),
        ("Ignore", Mark.HOST, True, 0, 2, "CompletionsReached"),
        ("Ignore", Mark.OPERATOR, False, 1, 1, "BackoffLimitExceeded"),
        ("FailJob", Mark.HOST, False, 1, 1, "PodFailurePolicy"),
    ],
)
async def test_a_pod_that_is_ended_for_the_hosts_sake_is_a_disruption_target(
    *, action: str, mark: Mark, killed: bool, failed: int, pods: int, reason: str
) -> None:
    """JOBS 8 and 15; so it is for a daemon that was killed meanwhile, too."""
    policy = {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    async with lab(Script(work=5, stopping=2)) as here:
        here.put(manifest({"backoffLimit": 0, "podFailurePolicy": policy}))
        await here.until(1)
        (pod,) = here.live
        delete(here, pod.metadata.uid, mark=mark)
        await here.until(2)
        if killed:
            await here.restart()
        await here.until(60)
        assert here.conditions()[-1][1] == reason
        assert (here.counts()["failed"], len(here.runner.started)) == (failed, pods)
        status = here.job().status
        assert status is not None
        if reason == "PodFailurePolicy":
            text = f"Pod default/{pod.metadata.name} has condition DisruptionTarget matching FailJob rule at index 0"
            assert status.conditions[-1].message == text


async def test_row_37_a_work_queue_is_done_when_all_have_ended_after_one_success() -> None:
    works = iter([1, 3, 3, 3])
    async with lab(lambda _: Script(work=next(works))) as here:
        here.put(manifest({"parallelism": 3}))
        await here.until(2.5)
        assert here.counts()["active"] == 2
        assert here.conditions() == []
        await here.until(4)
        assert here.conditions() == COMPLETE
        assert here.counts()["succeeded"] == 3
        assert len(here.runner.started) == 3


async def test_a_work_queue_without_workers_never_ends() -> None:
    async with lab() as here:
        here.put(manifest({"parallelism": 0}))
        await here.until(600)
        assert here.conditions() == []


async def test_row_38_a_finished_job_goes_when_its_time_is_over_and_never_runs_again() -> None:
    async with lab() as here:
        here.put(manifest({"ttlSecondsAfterFinished": 5}))
        await here.until(5.5)
        assert here.names() == ["j"]
        await here.until(7)
        assert here.names() == []
        assert not here.runner.pods
        assert not here.runner.logs
        assert not here.books().pods
        await here.restart()
        await here.until(60)
        assert len(here.runner.started) == 1
        assert here.names() == []
        here.put(manifest({"ttlSecondsAfterFinished": 50}))
        await here.until(70)
        assert len(here.runner.started) == 1
        here.put(manifest({"ttlSecondsAfterFinished": 50}, pod={"terminationGracePeriodSeconds": 9}))
        await here.until(80)
        assert len(here.runner.started) == 2
        assert here.job().metadata.generation == 2


async def test_a_ttl_that_passed_while_the_daemon_was_down_is_applied_at_start() -> None:
    async with lab() as here:
        here.put(manifest({"ttlSecondsAfterFinished": 5}))
        await here.until(3)
        await here.kill()
        await here.until(100)
        await here.start()
        await here.until(101)
        assert here.names() == []
        assert not here.runner.pods


async def test_an_expired_job_whose_file_goes_is_forgotten() -> None:
    async with lab() as here:
        here.put(manifest({"ttlSecondsAfterFinished": 0}))
        await here.until(5)
        here.remove()
        await here.until(6)
        assert not here.books().jobs
        here.put(manifest({"ttlSecondsAfterFinished": 0}))
        await here.until(10)
        assert len(here.runner.started) == 2


async def test_conditions_turn_terminal_only_when_every_pod_that_ended_has_been_counted() -> None:
    codes = iter([0, 1, 1])
    async with lab(lambda _: Script(code=next(codes))) as here:
        here.put(manifest({"parallelism": 3, "completions": 3, "backoffLimit": 0}))
        await here.until(10)
        assert here.conditions() == failed("BackoffLimitExceeded")
        assert (here.counts()["succeeded"], here.counts()["failed"]) == (1, 2)


async def test_a_pod_of_more_than_one_index_runs_the_lowest_free_one() -> None:
    def program(pod: Pod) -> Script:
        return Script(work=10 if index_of(pod) == 0 else 1)

    async with lab(program) as here:
        here.put(manifest({"completions": 4, "parallelism": 2, **INDEXED}))
        await here.until(20)
        assert [index_of(pod) for pod in here.runner.started] == [0, 1, 2, 3]


async def test_ignored_failures_of_an_index_are_counted_in_their_own_annotation() -> None:
    spec = {"completions": 1, "backoffLimitPerIndex": 1, **INDEXED, **rule("Ignore", "In", 5)}
    codes = iter([5, 1, 5, 0])
    async with lab(lambda _: Script(code=next(codes)), base=1) as here:
        here.put(manifest(spec))
        await here.until(60)
        prefix = "batch.kubernetes.io/job-index-"
        found = [
            (
                pod.metadata.annotations[f"{prefix}failure-count"],
                pod.metadata.annotations.get(f"{prefix}ignored-failure-count"),
            )
            for pod in here.runner.started
        ]
        assert found == [("0", None), ("0", "1"), ("1", "1"), ("1", "2")]
        assert here.conditions() == COMPLETE
        starts = [at - here._epoch for at in here.runner.start_times.values()]
        assert starts == pytest.approx([0, 2, 5, 10])


async def test_row_47_a_job_managed_elsewhere_is_listed_and_left_alone() -> None:
    async with lab() as here:
        here.put(manifest({"managedBy": "example.com/other", "ttlSecondsAfterFinished": 0}))
        await here.until(10)
        assert here.conditions() == []
        assert not here.runner.started
        assert here.names() == ["j"]
