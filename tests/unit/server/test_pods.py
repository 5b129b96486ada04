"""One pod on the read-only server, and waiting until a container of it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.status import ContainerState, ContainerStatus, PodStatus, StateRunning, StateTerminated
from minikubelet.server.pods import pod_routes

Client = TestClient[web.Request, web.Application]
RUNS, ENDED = ContainerState(running=StateRunning()), ContainerState(terminated=StateTerminated())
PATH = "/pods/default/web"
WAIT = f"{PATH}?uid=u&container=m&restartCount=1&seconds=60"


def web_pod(state: ContainerState, *, restarts: int = 1, uid: str = "u") -> Pod:
    status = PodStatus(container_statuses=(ContainerStatus(name="m", state=state, restart_count=restarts),))
    return Pod(metadata=ObjectMeta(name="web", namespace="default", uid=uid), status=status)


class Room:
    def __init__(self) -> None:
        self.pods = [web_pod(RUNS)]
        self.subscribers: list[Callable[[], None]] = []
        self.waited_for = asyncio.Event()

    def subscribe(self, subscriber: Callable[[], None]) -> Callable[[], None]:
        self.subscribers.append(subscriber)
        self.waited_for.set()
        return lambda: self.subscribers.remove(subscriber)


@pytest.fixture
async def room() -> Room:
    return Room()


@pytest.fixture
async def client(room: Room) -> AsyncIterator[Client]:
    app = web.Application()
    app.add_routes(pod_routes(pods=lambda: room.pods, subscribe=room.subscribe))
    async with TestClient(TestServer(app)) as found:
        yield found


async def test_a_pod_is_shown_by_its_name(client: Client) -> None:
    assert (await (await client.get(PATH)).json())["metadata"]["uid"] == "u"
    assert (await client.get("/pods/default/nosuch")).status == 404
    assert (await client.get(f"{PATH}?uid=another")).status == 404
    assert (await client.get(f"{PATH}?container=m&restartCount=x")).status == 400


@pytest.mark.parametrize(
    ("then", "code"),
    [
        ([web_pod(ENDED)], 200),
        ([web_pod(RUNS, restarts=2)], 200),
        ([web_pod(RUNS, uid="v")], 404),
        ([], 404),
    ],
    ids=["ended", "began anew", "another pod", "gone"],
)
async def test_an_answer_comes_when_the_container_has_ended(
    room: Room, client: Client, then: list[Pod], code: int
) -> None:
    asked = asyncio.create_task(client.get(WAIT))
    await room.waited_for.wait()
    room.pods = then
    for subscriber in room.subscribers:
        subscriber()
    assert (await asked).status == code
    assert room.subscribers == []


async def test_one_that_runs_on_is_shown_when_the_time_is_over(client: Client) -> None:
    answer = await client.get(WAIT.replace("seconds=60", "seconds=0.01"))
    assert (await answer.json())["status"]["containerStatuses"][0]["state"] == {"running": {"startedAt": None}}
