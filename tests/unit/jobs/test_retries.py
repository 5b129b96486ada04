"""Rows of JOBS 17 about running pods, counting and retrying, in virtual time."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest

from minikubelet.api.pod import Pod
from tests.unit.jobs.lab import SIDECAR, Script, index_of, lab, manifest

pytestmark = pytest.mark.looptime

INDEX = "batch.kubernetes.io/job-completion-index"
COMPLETE = [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]


def failed(reason: str) -> list[tuple[str, str]]:
    return [("FailureTarget", reason), ("Failed", reason)]


async def test_row_1_one_success_completes_a_job() -> None:
    async with lab(Script(work=3)) as here:
        here.put(manifest())
        await here.until(2)
        assert here.counts() == {"active": 1, "ready": 1, "terminating": 0, "succeeded": 0, "failed": 0}
        await here.until(4)
        assert here.conditions() == COMPLETE
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 0, "succeeded": 1, "failed": 0}
        status = here.job().status
        assert status is not None
        assert status.completion_time is not None
        assert status.start_time is not None
        assert status.completion_time >= status.start_time
        assert status.uncounted_terminated_pods == {}
        assert here.events(here.job().metadata.uid) == ["SuccessfulCreate", "Completed"]


async def test_row_2_no_more_than_parallelism_run_and_names_have_five_letters() -> None:
    most = 0

    def program(_pod: Pod) -> Script:
        nonlocal most
        most = max(most, len(here.live))
        return Script(work=1)

    async with lab(program) as here:
        here.put(manifest({"parallelism": 2, "completions": 5}))
        await here.until(2.5)
        assert here.counts()["active"] == 1
        assert here.counts()["succeeded"] == 4
        await here.until(4)
        assert here.conditions() == COMPLETE
        assert len(here.runner.started) == 5
        assert most <= 2
        names = [pod.metadata.name for pod in here.runner.started]
        assert all(re.fullmatch("j-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
        assert len(set(names)) == 5


async def test_row_3_backoff_limit_0_fails_at_the_first_failure() -> None:
    async with lab(Script(code=1)) as here:
        here.put(manifest({"backoffLimit": 0}))
        await here.until(30)
        assert len(here.runner.started) == 1
        assert here.conditions() == failed("BackoffLimitExceeded")
        assert here.counts()["failed"] == 1
        status = here.job().status
        assert status is not None
        assert status.completion_time is None


async def test_row_4_retries_wait_10_and_20_s_from_the_last_finish_and_failed_pods_stay() -> None:
    async with lab(Script(work=2.5, code=1)) as here:
        here.put(manifest({"backoffLimit": 2}))
        await here.until(120)
        assert [at - here._epoch for at in here.runner.start_times.values()] == pytest.approx(
            [0, 2.5 + 10, 2.5 + 10 + 2.5 + 20]
        )
        assert here.conditions() == failed("BackoffLimitExceeded")
        assert here.counts()["failed"] == 3
        assert len(here.runner.pods) == 3


async def test_row_5_a_success_sets_the_delay_back() -> None:
    codes = iter([1, 1, 0, 1, 0])
    async with lab(lambda _: Script(work=0.5, code=next(codes)), base=1) as here:
        here.put(manifest({"completions": 2}))
        await here.until(60)
        starts = [at - here._epoch for at in here.runner.start_times.values()]
        gaps = [later - earlier - 0.5 for earlier, later in itertools.pairwise(starts)]
        assert gaps == pytest.approx([1, 2, 0, 1])
        assert here.conditions() == COMPLETE
        assert (here.counts()["failed"], here.counts()["succeeded"]) == (3, 2)


async def test_row_6_three_failures_together_wait_40_s() -> None:
    async with lab(Script(code=1)) as here:
        here.put(manifest({"parallelism": 3, "completions": 3}))
        await here.until(40.9)
        assert len(here.runner.started) == 3
        await here.until(41.5)
        assert len(here.runner.started) == 6


@pytest.mark.parametrize(("limit", "runs"), [(2, 3), (1, 2), (0, 2)])
async def test_rows_7_and_8_restarts_in_a_pod_count_against_the_limit(limit: int, runs: int) -> None:
    async with lab(Script(code=1, earlier=(1,) * 20)) as here:
        here.put(manifest({"backoffLimit": limit}, pod={"restartPolicy": "OnFailure"}))
        await here.until(0.5)
        pod = next(iter(here.runner.pods.values()))
        await here.until(30)
        assert len(here.runner.started) == 1
        assert pod.restarts + 1 == runs
        assert here.conditions() == failed("BackoffLimitExceeded")
        assert here.counts()["failed"] == 1


async def test_row_9_restarts_that_lead_to_success_are_no_failures() -> None:
    async with lab(Script(earlier=(1, 1))) as here:
        here.put(manifest({"backoffLimit": 6}, pod={"restartPolicy": "OnFailure"}))
        await here.until(30)
        assert here.conditions() == COMPLETE
        assert here.counts()["failed"] == 0
        assert len(here.runner.started) == 1


@pytest.mark.parametrize(
    ("row", "script", "over"),
    [
        (10, Script(work=3, stopping=1), 4),
        (11, Script(work=3, stopping=1, sidecar_code=7), 4),
        (12, Script(work=3, stopping=3, sidecar_code=137), 6),
    ],
)
async def test_rows_10_to_12_a_job_completes_when_its_sidecar_has_ended_however_it_ended(
    row: int, script: Script, over: float
) -> None:
    async with lab(script) as here:
        here.put(manifest(pod=SIDECAR))
        await here.until(over - 0.1)
        assert here.counts() == {"active": 1, "ready": 0, "terminating": 0, "succeeded": 0, "failed": 0}
        await here.until(over)
        assert here.conditions() == COMPLETE


async def test_row_13_a_failed_main_beside_a_sidecar_fails_the_job() -> None:
    async with lab(Script(code=3, stopping=1)) as here:
        here.put(manifest({"backoffLimit": 0}, pod=SIDECAR))
        await here.until(5)
        assert here.conditions() == failed("BackoffLimitExceeded")


async def test_row_14_crashing_sidecars_never_count_under_never() -> None:
    async with lab(Script(work=8, sidecar_crash_every=1)) as here:
        here.put(manifest({"backoffLimit": 0}, pod=SIDECAR))
        await here.until(20)
        assert here.conditions() == COMPLETE
        assert here.counts()["failed"] == 0


async def test_row_15_a_crashing_sidecar_fails_an_on_failure_job() -> None:
    async with lab(Script(work=600, sidecar_crash_every=1)) as here:
        here.put(manifest({"backoffLimit": 2}, pod={**SIDECAR, "restartPolicy": "OnFailure"}))
        await here.until(20)
        assert here.conditions() == failed("BackoffLimitExceeded")
        assert here.counts()["failed"] == 1
        assert not here.runner.pods


async def test_row_16_a_pod_that_never_starts_is_ended_by_the_deadline() -> None:
    async with lab(Script(start=600)) as here:
        here.put(manifest({"activeDeadlineSeconds": 5}, pod=SIDECAR))
        await here.until(4.9)
        assert here.counts()["active"] == 1
        await here.until(5.1)
        assert here.conditions() == failed("DeadlineExceeded")


async def test_rows_17_and_19_indexed_pods_know_their_index() -> None:
    own = {"containers": [{"name": "main", "image": "b", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]}]}
    async with lab() as here:
        here.put(manifest({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}, pod=SIDECAR))
        here.put(manifest({"completions": 1, "completionMode": "Indexed"}, name="own", pod=own), file="own.yaml")
        await here.until(5)
        status = here.job().status
        assert status is not None
        assert status.completed_indexes == "0-3"
        pods = [pod for pod in here.runner.started if pod.metadata.name.startswith("j-")]
        assert [pod.spec.hostname for pod in pods] == ["j-0", "j-1", "j-2", "j-3"]
        for pod in pods:
            index = index_of(pod)
            assert re.fullmatch(f"j-{index}-[a-z0-9]{{5}}", pod.metadata.name)
            assert pod.metadata.annotations[INDEX] == str(index)
            for container in (*pod.spec.containers, *pod.spec.init_containers):
                (env,) = container.env
                assert env.name == "JOB_COMPLETION_INDEX"
                assert env.value_from is not None
                assert env.value_from.field_ref is not None
                assert env.value_from.field_ref.field_path == f"metadata.labels['{INDEX}']"
                assert pod.metadata.labels[INDEX] == str(index)
        (other,) = [pod for pod in here.runner.started if pod.metadata.name.startswith("own-")]
        assert [env.value for env in other.spec.containers[0].env] == ["x"]


async def test_row_18_completed_indexes_have_gaps() -> None:
    async with lab(lambda pod: Script(work=50 if index_of(pod) == 1 else 1)) as here:
        here.put(manifest({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
        await here.until(10)
        status = here.job().status
        assert status is not None
        assert status.completed_indexes == "0,2"
        await here.until(51)
        status = here.job().status
        assert status is not None
        assert status.completed_indexes == "0-2"
        assert here.conditions() == COMPLETE


async def test_row_20_indexes_fail_by_themselves() -> None:
    spec = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    async with lab(lambda pod: Script(code=index_of(pod) % 2), base=1) as here:
        here.put(manifest(spec))
        await here.until(60)
        status = here.job().status
        assert status is not None
        assert (status.completed_indexes, status.failed_indexes) == ("0,2", "1,3")
        assert (here.counts()["failed"], here.counts()["succeeded"]) == (4, 2)
        assert here.conditions() == failed("FailedIndexes")
        counts = Counter(
            (index_of(pod), pod.metadata.annotations["batch.kubernetes.io/job-index-failure-count"])
            for pod in here.runner.started
        )
        assert counts == {(0, "0"): 1, (1, "0"): 1, (1, "1"): 1, (2, "0"): 1, (3, "0"): 1, (3, "1"): 1}


async def test_row_21_max_failed_indexes() -> None:
    spec = {"completions": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    async with lab(Script(code=1)) as here:
        here.put(manifest(spec))
        await here.until(30)
        status = here.job().status
        assert status is not None
        assert status.failed_indexes == "0"
        assert here.counts()["failed"] == 1
        assert here.conditions() == failed("MaxFailedIndexesExceeded")


async def test_row_22_an_index_that_waits_holds_its_slot() -> None:
    spec = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    async with lab(lambda pod: Script(code=0 if index_of(pod) else 1)) as here:
        here.put(manifest(spec))
        await here.until(10.9)
        assert len(here.runner.started) == 1
        await here.until(60)
        assert [index_of(pod) for pod in here.runner.started] == [0, 0, 1]
