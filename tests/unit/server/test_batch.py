"""Jobs and CronJobs on the read-only server, and waiting for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from minikubelet.api.batch import CronJob, Job, JobCondition, JobStatus
from minikubelet.api.meta import ObjectMeta
from minikubelet.server.batch import batch_routes

Client = TestClient[web.Request, web.Application]
JOB = Job(metadata=ObjectMeta(name="j", namespace="default"), status=JobStatus())


class Room:
    """The Jobs' room, as far as the server knows it."""

    def __init__(self) -> None:
        self.jobs: list[Job] = [JOB]
        self.subscribers: list[Callable[[], None]] = []
        self.waited_for = asyncio.Event()

    def subscribe(self, subscriber: Callable[[], None]) -> Callable[[], None]:
        self.subscribers.append(subscriber)
        self.waited_for.set()
        return lambda: self.subscribers.remove(subscriber)

    def job(self, namespace: str, name: str) -> Job | None:
        found = (job for job in self.jobs if (job.metadata.namespace, job.metadata.name) == (namespace, name))
        return next(found, None)

    def show(self, *kinds: str) -> None:
        conditions = tuple(JobCondition(type=kind, status="True") for kind in kinds)
        self.jobs = [replace(JOB, status=JobStatus(conditions=conditions))]
        for subscriber in self.subscribers:
            subscriber()


@pytest.fixture
async def room() -> Room:
    return Room()


@pytest.fixture
async def client(room: Room) -> AsyncIterator[Client]:
    app = web.Application()
    cron = CronJob(metadata=ObjectMeta(name="c", namespace="default"))
    routes = batch_routes(jobs=lambda: room.jobs, job=room.job, cronjobs=lambda: [cron], subscribe=room.subscribe)
    app.add_routes(routes)
    async with TestClient(TestServer(app)) as found:
        yield found


async def test_lists_are_those_of_batch_v1(client: Client) -> None:
    jobs = await (await client.get("/jobs")).json()
    assert (jobs["kind"], jobs["apiVersion"]) == ("JobList", "batch/v1")
    assert jobs["items"][0]["metadata"]["name"] == "j"
    crons = await (await client.get("/cronjobs")).json()
    assert (crons["kind"], crons["items"][0]["kind"]) == ("CronJobList", "CronJob")


async def test_a_wait_is_answered_by_the_change_it_waits_for(client: Client, room: Room) -> None:
    waiting = asyncio.create_task(client.get("/jobs/default/j?for=Complete&seconds=15"))
    await room.waited_for.wait()
    room.show("Suspended")
    await asyncio.sleep(0.02)
    assert not waiting.done()
    room.show("SuccessCriteriaMet", "Complete")
    found = await (await waiting).json()
    assert [each["type"] for each in found["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert not room.subscribers


async def test_a_wait_is_over_when_the_job_ended_otherwise_or_went(client: Client, room: Room) -> None:
    room.show("FailureTarget", "Failed")
    assert (await client.get("/jobs/default/j?for=Complete&seconds=15")).status == 200
    room.jobs = []
    assert (await client.get("/jobs/default/j?for=Complete&seconds=15")).status == 404


async def test_a_wait_is_over_when_its_time_is(client: Client) -> None:
    answer = await client.get("/jobs/default/j?for=Complete&seconds=0.05")
    assert answer.status == 200
    assert (await client.get("/jobs/default/j?for=Complete&seconds=x")).status == 400
    assert (await client.get("/jobs/default/j")).status == 200
    assert (await client.get("/jobs/other/j")).status == 404
