"""Events of Jobs and CronJobs as the server shows them (JOBS 16)."""

from __future__ import annotations

import pytest

from minikubelet.jobs.events import job_events, merged
from minikubelet.server.events import as_v1
from minikubelet.store.jobs import StoredEvent
from tests.unit.jobs.lab import EPOCH, Script, cron_manifest, lab, manifest

pytestmark = pytest.mark.looptime


async def test_each_says_what_it_is_about_and_when() -> None:
    async with lab(Script(work=5)) as here:
        here.put(manifest())
        here.put(cron_manifest({"schedule": "@yearly"}), file="cron.yaml")
        await here.until(10)
        (_, completed) = await job_events(here.controller)
        shown = as_v1(completed, node="box")
        about = {"kind": "Job", "apiVersion": "batch/v1", "namespace": "default", "name": "j"}
        assert shown["involvedObject"] == {**about, "uid": here.job().metadata.uid}
        assert (shown["type"], shown["reason"], shown["message"]) == ("Normal", "Completed", "Job completed")
        assert completed.last_at == EPOCH + 5


async def test_those_of_a_job_that_expired_stay_until_its_file_goes() -> None:
    async with lab(Script(work=1)) as here:
        here.put(manifest({"ttlSecondsAfterFinished": 1}))
        await here.until(5)
        assert not here.names()
        assert "Completed" in {each.event.reason for each in await job_events(here.controller)}
        here.remove()
        await here.until(6)
        assert await job_events(here.controller) == []


async def test_what_happened_more_than_once_is_one_event() -> None:
    async with lab() as here:
        here.put(cron_manifest({"schedule": "@yearly"}))
        await here.until(1)
        (record,) = here.controller.roster.records()
        stored = [StoredEvent(at, "Normal", reason, "text") for at, reason in ((1, "A"), (2, "B"), (3, "A"))]
        found = merged(record, stored)
        assert [(it.event.reason, it.count, it.first_at, it.last_at) for it in found] == [
            ("B", 1, 2, 2),
            ("A", 2, 1, 3),
        ]
        assert {it.kind for it in found} == {"CronJob"}
