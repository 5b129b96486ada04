"""The operations about pods and Jobs, asked over a real socket: what they answer, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession, UnixConnector

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.refusals import RefusedError
from minikubelet.jobs.commands import JobCommands
from minikubelet.jobs.roster import Key
from minikubelet.operations import operations
from minikubelet.pods.live import LivePods
from minikubelet.pods.manager import PodManager
from minikubelet.server.app import make_app
from minikubelet.server.control import SOCKET, serve_control
from minikubelet.server.parts import ManifestsStatus, Parts, RuntimeStatus, Status
from minikubelet.store.database import Store

STATUS = Status(
    version="1",
    node="n",
    started_at="2026-01-01T00:00:00Z",
    runtime=RuntimeStatus(endpoint="unix:///x"),
    manifests=ManifestsStatus(folder="/m"),
)


class Rooms:
    """The rooms as far as the operations know them; `did` is what was done, in order."""

    def __init__(self) -> None:
        self.did: list[object] = []
        self.job_pods: set[str] = set()
        self.changes = True
        self.disk_works = True
        self.over = asyncio.Event()

    async def ready(self) -> None:
        self.did.append("ready")

    async def suspend(self, key: Key, *, suspended: bool) -> bool:
        self.did.append((key.name, suspended))
        return self.changes

    async def restart(self, key: Key) -> str:
        if key.name == "none":
            raise RefusedError("NotFound", 'jobs.batch "none" not found')
        return "uid"

    async def replaced(self, key: Key, uid: str) -> None:
        assert (key.name, uid) == ("j", "uid")
        await self.over.wait()

    async def delete_pod(self, uid: str) -> bool:
        if owned := uid in self.job_pods:
            self.did.append(f"the Job deletes {uid}")
        return owned

    def delete(self, uid: str, *, grace: int | None) -> None:
        self.did.append(("delete", uid, grace))

    def end(self, uid: str, *, grace: int | None) -> None:
        self.did.append(("end", uid, grace))

    def gone(self, uid: str) -> asyncio.Event:
        assert uid
        return self.over

    async def settled(self) -> bool:
        self.did.append("settled")
        return self.disk_works


@pytest.fixture
async def rooms() -> Rooms:
    return Rooms()


@pytest.fixture
def live() -> LivePods:
    live = LivePods()
    for uid, name in (("ending", "web"), ("waiting", "web"), ("jobs", "j-1")):
        live.put(Pod(metadata=ObjectMeta(name=name, namespace="default", uid=uid)))
    return live


@pytest.fixture
async def session(rooms: Rooms, live: LivePods, tmp_path: Path) -> AsyncIterator[ClientSession]:
    async def no_events() -> list[bytes]:
        return []

    routes = operations(
        jobs=cast("JobCommands", rooms), pods=cast("PodManager", rooms), live=live, store=cast("Store", rooms)
    )
    parts = Parts(pods=live.encoded, events=no_events, status=lambda: STATUS)
    served = serve_control(make_app(parts, routes=routes, on_network=False), tmp_path / SOCKET)
    connector = UnixConnector(path=str(tmp_path / SOCKET))
    async with served, ClientSession(base_url="http://localhost", connector=connector) as session:
        yield session


async def ask(session: ClientSession, method: str, path: str) -> tuple[int, list[dict[str, Any]]]:
    async with session.request(method, path) as answer:
        return answer.status, [json.loads(line) async for line in answer.content]


@pytest.mark.parametrize(
    ("verb", "changes", "message"),
    [
        ("suspend", True, "job.batch/j suspended"),
        ("suspend", False, "job.batch/j is suspended already"),
        ("resume", True, "job.batch/j resumed"),
        ("resume", False, "job.batch/j is not suspended"),
    ],
)
async def test_a_word_that_changes_nothing_is_told_apart(
    session: ClientSession, rooms: Rooms, verb: str, changes: bool, message: str
) -> None:
    rooms.changes = changes
    status, (step, end) = await ask(session, "POST", f"/jobs/default/j/{verb}")
    assert (status, step["message"], step["object"], end["status"]) == (200, message, "job.batch/j", "Success")
    assert rooms.did == [("j", verb == "suspend")]


async def test_without_waiting_a_restart_is_answered_at_once(session: ClientSession) -> None:
    assert (await ask(session, "POST", "/jobs/default/j/restart"))[1][-1]["status"] == "Success"


async def test_a_restart_is_told_when_it_is_certain_and_ends_when_it_is_over(
    session: ClientSession, rooms: Rooms
) -> None:
    async with session.post("/jobs/default/j/restart?wait=true") as answer:
        assert json.loads(await answer.content.readline())["message"] == "job.batch/j restarted"
        rooms.over.set()
        assert json.loads(await answer.content.readline())["status"] == "Success"


async def test_what_is_not_there_is_refused(session: ClientSession) -> None:
    for method, path in (("POST", "/jobs/default/none/restart"), ("DELETE", "/pods/other/web")):
        status, (end,) = await ask(session, method, path)
        assert (status, end["reason"]) == (404, "NotFound")


async def test_of_two_pods_of_one_name_the_one_that_was_there_first_is_meant(
    session: ClientSession, rooms: Rooms
) -> None:
    status, (step, _) = await ask(session, "DELETE", "/pods/default/web?gracePeriodSeconds=5")
    assert (status, step["message"]) == (200, 'pod "web" deleted')
    assert rooms.did == ["ready", ("delete", "ending", 5), "settled"]


async def test_a_jobs_pod_is_its_jobs_matter_and_only_hurried(session: ClientSession, rooms: Rooms) -> None:
    rooms.job_pods.add("jobs")
    await ask(session, "DELETE", "/pods/default/j-1")
    assert rooms.did == ["ready", "the Job deletes jobs", "settled"]
    await ask(session, "DELETE", "/pods/default/j-1?gracePeriodSeconds=1")
    assert rooms.did[3:] == ["ready", "the Job deletes jobs", ("end", "jobs", 1), "settled"]


async def test_what_could_not_be_written_down_is_no_success(session: ClientSession, rooms: Rooms) -> None:
    rooms.disk_works = False
    status, (end,) = await ask(session, "DELETE", "/pods/default/web")
    assert (status, end["reason"]) == (500, "InternalError")
    assert "if the daemon ends before the pod has, the pod goes on" in end["message"]


@pytest.mark.parametrize("seconds", ["-1", "1.5", "x", "", "9999999999"])
async def test_a_grace_that_is_no_number_is_refused(session: ClientSession, rooms: Rooms, seconds: str) -> None:
    status, (end,) = await ask(session, "DELETE", f"/pods/default/web?gracePeriodSeconds={seconds}")
    assert (status, end["reason"], rooms.did) == (400, "BadRequest", [])
