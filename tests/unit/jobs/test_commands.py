"""What people command of Jobs: it is done when it is answered, also for the next daemon; what cannot be is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikubelet.api.refusals import RefusedError
from minikubelet.jobs.roster import Key
from tests.unit.jobs.lab import Killed, Lab, Script, cron_manifest, lab, manifest

pytestmark = pytest.mark.looptime

J = Key("default", "j")
CRON = Key("default", "c")
YEARLY = {"schedule": "@yearly"}
FINISHED = "has ended \\(Complete\\); restart runs it again"


async def answered_then_killed(here: Lab, command: Awaitable[Any]) -> Any:
    """The daemon dies the moment it has answered."""
    answer = await command
    await here.restart()
    return answer


async def refused(command: Awaitable[Any], reason: str, match: str | None = None) -> None:
    with pytest.raises(RefusedError, match=match) as caught:
        await command
    assert caught.value.reason == reason


# suspend, resume


async def test_a_suspension_that_was_answered_outlives_the_daemon_and_counters_stay() -> None:
    async with lab(lambda pod: Script(work=1 if pod.metadata.name.startswith("j-0") else 60)) as here:
        here.put(manifest({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}))
        await here.until(2)
        assert here.counts()["succeeded"] == 1
        assert await answered_then_killed(here, here.commands.suspend(J, suspended=True))
        await here.until(4)
        assert here.conditions() == [("Suspended", "JobSuspended")]
        assert here.counts() == {"active": 0, "ready": 0, "terminating": 0, "succeeded": 1, "failed": 0}
        assert here.job().spec.suspend
        assert await answered_then_killed(here, here.commands.suspend(J, suspended=False))
        await here.until(6)
        assert here.conditions() == [("!Suspended", "JobResumed")]
        assert (here.counts()["active"], here.counts()["succeeded"]) == (2, 1)


async def test_a_word_that_changes_nothing_says_so() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        await here.until(1)
        assert not await here.commands.suspend(J, suspended=False)
        assert await here.commands.suspend(J, suspended=True)
        assert not await here.commands.suspend(J, suspended=True)


async def test_a_command_wins_over_the_manifest_until_the_manifests_own_word_changes() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        await here.until(1)
        await here.commands.suspend(J, suspended=True)
        here.put(manifest({"backoffLimit": 5}))  # another field: it stays suspended
        await here.until(3)
        assert here.counts()["active"] == 0
        uid = here.job().metadata.uid
        here.put(manifest({"backoffLimit": 5}, pod={"hostname": "x"}))  # a new generation, too
        await here.until(5)
        assert here.job().metadata.uid != uid
        assert (here.counts()["active"], here.conditions()) == (0, [("Suspended", "JobSuspended")])
        here.put(manifest({"backoffLimit": 5, "suspend": True}, pod={"hostname": "x"}))
        await here.until(6)
        here.put(manifest({"backoffLimit": 5, "suspend": False}, pod={"hostname": "x"}))
        await here.until(7)
        assert here.counts()["active"] == 1


async def test_a_manifest_that_suspends_can_be_resumed_by_command() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest({"suspend": True}))
        await here.until(1)
        assert await answered_then_killed(here, here.commands.suspend(J, suspended=False))
        await here.until(2)
        assert here.counts()["active"] == 1


async def test_a_removed_manifest_takes_the_command_with_it() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        await here.until(1)
        await here.commands.suspend(J, suspended=True)
        here.remove()
        await here.until(3)
        here.put(manifest())
        await here.until(4)
        assert here.counts()["active"] == 1


@pytest.mark.parametrize("suspended", [True, False])
async def test_what_cannot_be_suspended_or_resumed_is_refused(suspended: bool) -> None:
    async with lab(Script(work=1)) as here:
        await refused(here.commands.suspend(J, suspended=suspended), "NotFound", 'jobs.batch "j" not found')
        here.put(manifest())
        await here.until(3)
        await refused(here.commands.suspend(J, suspended=suspended), "Conflict", FINISHED)
        here.put(manifest({"managedBy": "example.com/x"}, name="other"), file="other.yaml")
        await here.until(4)
        await refused(here.commands.suspend(Key("default", "other"), suspended=suspended), "Conflict", "example.com/x")


# restart


async def test_a_finished_job_runs_again_as_another_one() -> None:
    async with lab(Script(work=1, code=1)) as here:
        here.put(manifest({"backoffLimit": 0}))
        await here.until(2)
        first = here.job()
        assert here.conditions()[-1] == ("Failed", "BackoffLimitExceeded")
        assert await answered_then_killed(here, here.commands.restart(J)) == first.metadata.uid
        await here.until(2.5)
        again = here.job()
        assert again.metadata.uid != first.metadata.uid
        assert again.metadata.generation == 2
        assert (here.counts()["failed"], here.conditions()) == (0, [])
        await here.until(5)
        assert here.counts()["failed"] == 1
        assert len(here.books().jobs) == 1


async def test_a_running_job_ends_in_order_before_it_runs_again() -> None:
    async with lab(Script(work=60, stopping=5)) as here:
        here.put(manifest({"parallelism": 2, "completions": 2}))
        await here.until(1)
        uid = here.job().metadata.uid
        await answered_then_killed(here, here.commands.restart(J))
        waited = asyncio.create_task(here.commands.replaced(J, uid))
        await here.until(4)
        assert (here.counts()["active"], here.counts()["terminating"], len(here.runner.started)) == (0, 2, 2)
        await here.restart()
        assert not waited.done()
        waited = asyncio.create_task(here.commands.replaced(J, uid))
        await here.until(8)
        assert waited.done()
        assert (here.counts()["active"], len(here.runner.started)) == (2, 4)


async def test_a_second_word_while_it_ends_changes_nothing() -> None:
    async with lab(Script(work=60, stopping=5)) as here:
        here.put(manifest())
        await here.until(1)
        await here.commands.restart(J)
        await here.commands.restart(J)
        await refused(here.commands.suspend(J, suspended=True), "Conflict", "to begin anew")
        await here.until(10)
        assert here.job().metadata.generation == 2


async def test_a_restart_forgets_that_it_was_suspended() -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        await here.until(1)
        await here.commands.suspend(J, suspended=True)
        await here.commands.restart(J)
        await here.until(3)
        assert here.counts()["active"] == 1


async def test_what_expired_runs_again() -> None:
    async with lab(Script(work=1)) as here:
        here.put(manifest({"ttlSecondsAfterFinished": 1}))
        await here.until(4)
        assert here.names() == []
        uid = await answered_then_killed(here, here.commands.restart(J))
        await here.until(4.5)
        assert (here.job().metadata.uid != uid, here.job().metadata.generation) == (True, 2)
        await here.commands.replaced(J, uid)
        await here.until(8)
        assert here.names() == []
        assert len(here.runner.started) == 2


async def test_what_is_just_expiring_runs_again() -> None:
    async with lab(Script(work=1)) as here:
        here.put(manifest({"ttlSecondsAfterFinished": 0}))
        told: list[asyncio.Task[str]] = []

        def expired(when: str) -> None:
            states = {job.state.value for job in here.books().jobs}
            if when == "after" and "expired" in states and not told:
                told.append(asyncio.create_task(here.commands.restart(J)))

        here.interrupt = expired
        await here.until(3)
        assert len(here.runner.started) == 2
        assert await told[0]


async def test_a_removed_manifest_wins_over_a_restart() -> None:
    async with lab(Script(work=60, stopping=3)) as here:
        here.put(manifest())
        await here.until(1)
        await here.commands.restart(J)
        here.remove()
        await here.until(6)
        assert here.names() == []
        await refused(here.commands.restart(J), "NotFound")


async def test_a_job_that_is_being_removed_is_not_restarted() -> None:
    async with lab(Script(work=60, stopping=3)) as here:
        here.put(manifest())
        await here.until(1)
        here.remove()
        await here.until(2)
        await refused(here.commands.restart(J), "Conflict", "is being removed")


def is_suspended(here: Lab) -> bool:
    return (here.counts()["active"], here.conditions()) == (0, [("Suspended", "JobSuspended")])


def is_resumed(here: Lab) -> bool:
    return here.counts("asleep")["active"] == 1


def is_restarted(here: Lab) -> bool:
    return (here.counts()["active"], here.job().metadata.generation) == (1, 2)


def is_run(here: Lab) -> bool:
    return "hand" in here.names() and here.counts("hand")["active"] == 1


def is_replaced(here: Lab) -> bool:
    first, *others = (pod.metadata.uid for pod in here.runner.started)
    return here.counts()["failed"] == 1 and first not in here.runner.pods and [*here.runner.pods] == others


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("command", "is_done"),
    [
        (lambda here: here.commands.suspend(J, suspended=True), is_suspended),
        (lambda here: here.commands.suspend(Key("default", "asleep"), suspended=False), is_resumed),
        (lambda here: here.commands.restart(J), is_restarted),
        (lambda here: here.commands.run_from(CRON, name="hand"), is_run),
        (lambda here: here.commands.delete_pod(here.runner.started[0].metadata.uid), is_replaced),
    ],
    ids=["suspend", "resume", "restart", "run", "delete-pod"],
)
async def test_a_daemon_killed_at_any_commit_does_a_command_whole_or_not_at_all(
    command: Callable[[Lab], Awaitable[Any]], is_done: Callable[[Lab], bool], when: str, nth: int
) -> None:
    """And whole, if it was answered; `nth`: of the commits that the command brings about."""
    async with lab(Script(work=600, stopping=1), base=1) as here:
        here.put(manifest())
        here.put(manifest({"suspend": True}, name="asleep"), file="asleep.yaml")
        here.put(cron_manifest(YEARLY), file="cron.yaml")
        await here.until(1)
        commits = 0

        def die(now: str) -> None:
            nonlocal commits
            commits += now == when
            if commits == nth:
                raise Killed

        here.interrupt = die
        asked = asyncio.ensure_future(command(here))
        await here.until(3)
        answered = asked.done() and asked.exception() is None
        asked.cancel()
        here.interrupt = lambda _: None
        await here.restart()
        await here.until(6)
        if answered or nth > 1 or when == "after":
            assert is_done(here)
        else:
            assert (here.counts()["active"], here.counts("asleep")["active"], here.counts()["failed"]) == (1, 0, 0)
            assert (sorted(here.names()), here.job().metadata.generation) == (["asleep", "j"], 1)


# run --from


async def test_a_cronjob_is_run_by_hand_as_kubectl_would() -> None:
    async with lab(Script(work=60)) as here:
        here.put(cron_manifest(YEARLY, job={"backoffLimit": 2}))
        await here.until(1)
        made = await answered_then_killed(here, here.commands.run_from(CRON, name="by-hand"))
        assert made.metadata.name == "by-hand"
        await here.until(2)
        job = here.job("by-hand")
        assert job.metadata.annotations["cronjob.kubernetes.io/instantiate"] == "manual"
        (owner,) = job.metadata.owner_references
        (cron,) = here.controller.roster.shown_cronjobs()
        assert (owner.kind, owner.name, owner.uid, owner.controller) == ("CronJob", "c", cron.metadata.uid, True)
        assert owner.block_owner_deletion is None
        assert job.spec.backoff_limit == 2
        assert (cron.status and cron.status.active, cron.status and cron.status.last_schedule_time) == ((), None)
        assert here.counts("by-hand")["active"] == 1
        assert here.events(cron.metadata.uid) == ["SuccessfulCreate"]


async def test_without_a_name_one_is_made_up_each_time() -> None:
    async with lab(Script(work=60)) as here:
        here.put(cron_manifest(YEARLY))
        await here.until(1)
        names = {(await here.commands.run_from(CRON)).metadata.name for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith("c-") and len(name) == 7 for name in names)


async def test_runs_by_hand_count_for_the_history_and_the_schedule_does_not_heed_them() -> None:
    spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 1}
    async with lab(lambda pod: Script(work=1 if "short" in pod.metadata.name else 600)) as here:
        here.put(cron_manifest(spec))
        await here.until(1)
        for name in ("short-1", "short-2"):
            await here.commands.run_from(CRON, name=name)
            await here.until(here.now + 3)
        assert here.names() == ["short-2"]
        await here.commands.run_from(CRON, name="long")
        await here.until(65)
        assert sorted(name for name in here.names() if name.startswith("c-"))  # Forbid does not mean it
        (cron,) = here.controller.roster.shown_cronjobs()
        assert "JobAlreadyActive" not in here.events(cron.metadata.uid)


async def test_a_run_by_hand_goes_with_its_cronjob_or_by_command() -> None:
    async with lab(Script(work=60, stopping=2)) as here:
        here.put(cron_manifest(YEARLY))
        await here.until(1)
        for name in ("one", "two"):
            await here.commands.run_from(CRON, name=name)
        await here.until(2)
        uid = await answered_then_killed(here, here.commands.delete(Key("default", "one")))
        await here.commands.replaced(Key("default", "one"), uid)
        assert here.names() == ["two"]
        here.remove()
        await here.until(10)
        assert (here.names(), here.controller.roster.shown_cronjobs(), here.runner.pods) == ([], [], {})


async def test_a_run_by_hand_can_be_restarted_and_then_deleted_while_it_ends() -> None:
    async with lab(Script(work=60, stopping=2)) as here:
        here.put(cron_manifest(YEARLY))
        await here.until(1)
        one = Key("default", "one")
        await here.commands.run_from(CRON, name="one")
        await here.until(2)
        uid = await answered_then_killed(here, here.commands.restart(one))
        await here.commands.replaced(one, uid)
        await here.until(6)
        assert (here.job("one").metadata.generation, here.counts("one")["active"]) == (2, 1)
        await here.commands.restart(one)
        await here.commands.delete(one)
        await here.until(10)
        assert here.names() == []


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
async def test_a_restarted_run_of_the_schedule_is_heeded_while_it_ends(policy: str) -> None:
    spec = {"schedule": "* * * * *", "concurrencyPolicy": policy}
    async with lab(Script(work=600, stopping=90), epoch=28_333_334 * 60 - 1) as here:
        here.put(cron_manifest(spec))
        await here.until(3)
        (first,) = here.names()
        (cron,) = here.controller.roster.shown_cronjobs()
        await here.commands.restart(Key("default", first))
        await here.until(62)  # the next minute's mark is over, the old pod still ends
        assert (here.counts(first)["active"], here.counts(first)["terminating"]) == (0, 1)
        assert len(here.names()) == (1 if policy == "Forbid" else 2)
        await here.until(100)
        runs = here.runner.started
        assert len(runs) == 2
        said = here.events(cron.metadata.uid)
        if policy == "Forbid":
            assert (here.names(), said) == ([first], ["SuccessfulCreate", "JobAlreadyActive"])
        else:
            assert first not in here.names()
            assert said == ["SuccessfulCreate", "SuccessfulDelete", "SuccessfulCreate"]


async def test_a_restarted_run_goes_with_its_cronjob_and_never_begins() -> None:
    async with lab(Script(work=600, stopping=5)) as here:
        here.put(cron_manifest(YEARLY))
        await here.until(1)
        await here.commands.run_from(CRON, name="one")
        await here.until(2)
        await here.commands.restart(Key("default", "one"))
        here.remove()
        await here.until(10)
        assert (here.names(), len(here.runner.started)) == ([], 1)
        assert not here.controller.roster.shown_cronjobs()


@pytest.mark.parametrize(
    ("command", "reason", "text"),
    [
        (lambda c: c.run_from(Key("default", "none")), "NotFound", 'cronjobs.batch "none" not found'),
        (lambda c: c.run_from(Key("other", "c")), "NotFound", 'cronjobs.batch "c" not found'),
        (lambda c: c.run_from(CRON, name="j"), "AlreadyExists", 'jobs.batch "j" already exists'),
        (lambda c: c.run_from(CRON, name="Bad_Name"), "Invalid", 'Job "Bad_Name" is invalid: metadata.name'),
        (lambda c: c.run_from(CRON, name="x" * 64), "Invalid", "metadata.name"),
        (lambda c: c.delete(J), "Conflict", "asked for by job.yaml"),
        (lambda c: c.delete(Key("default", "none")), "NotFound", 'jobs.batch "none" not found'),
    ],
)
async def test_what_cannot_be_run_or_deleted_is_refused(
    command: Callable[[Any], Awaitable[Any]], reason: str, text: str
) -> None:
    async with lab(Script(work=60)) as here:
        here.put(manifest())
        here.put(cron_manifest(YEARLY), file="cron.yaml")
        await here.until(1)
        await refused(command(here.commands), reason, text)
        assert here.names() == ["j"]


async def test_without_pods_being_run_nothing_is_done() -> None:
    async with lab() as here:
        here.controller.serving.clear()
        await refused(here.commands.restart(J), "ServiceUnavailable", "nothing was done")


# delete pod


async def test_a_job_pod_that_is_deleted_is_replaced_also_after_a_kill() -> None:
    async with lab(Script(work=60, stopping=5)) as here:
        here.put(manifest())
        await here.until(2)
        uid = here.live[0].metadata.uid
        assert await answered_then_killed(here, here.commands.delete_pod(uid))
        await here.until(3)
        assert (here.counts()["failed"], here.counts()["active"], here.counts()["terminating"]) == (1, 0, 1)
        await here.until(20)
        assert uid not in here.runner.pods
        assert here.counts()["active"] == 1


async def test_a_finished_pod_that_is_deleted_goes_and_its_outcome_stays() -> None:
    async with lab(Script(work=1)) as here:
        here.put(manifest())
        await here.until(3)
        (uid,) = here.runner.pods
        assert await here.commands.delete_pod(uid)
        await here.until(4)
        assert here.runner.pods == {}
        assert here.counts()["succeeded"] == 1
        assert here.conditions()[-1][0] == "Complete"


async def test_a_pod_that_is_no_jobs_is_left_to_others() -> None:
    async with lab() as here:
        assert not await here.commands.delete_pod("unheard-of")
