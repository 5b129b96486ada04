"""Lifecycle hooks: what they do and the exact words of their failures (PH 7.4)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import (
    Container,
    ContainerPort,
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    LifecycleHandler,
    Pod,
    SleepAction,
    TCPSocketAction,
)
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.hooks import HookError, run_hook
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.http_client import HttpClient
from minikubelet.runtime.cri import ExecResult
from minikubelet.runtime.errors import ContainerRuntimeError
from tests.support.http_server import always, http_server, response, tcp_server

POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="4711"))
WHERE = 'for Container "a" in Pod "web_shop(4711)" failed - error: '


class World:
    def __init__(self, http: HttpClient) -> None:
        self.http = http
        self.answer: ExecResult | ContainerRuntimeError = ExecResult(exit_code=0, stdout=b"", stderr=b"")
        self.calls: list[tuple[str, tuple[str, ...], int, float | None]] = []
        self.events: list[Event] = []
        self.address = "127.0.0.1"

    async def exec_sync(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout: int,  # noqa: ASYNC109
        patience: float | None = None,
    ) -> ExecResult:
        self.calls.append((container_id, tuple(command), timeout, patience))
        if isinstance(self.answer, ContainerRuntimeError):
            raise self.answer
        return self.answer

    async def answers(self) -> bool:
        return True

    def event(self, _pod: Pod, event: Event) -> None:
        self.events.append(event)

    async def run(self, handler: LifecycleHandler, *, port: int = 80) -> None:
        container = Container(name="a", ports=(ContainerPort(container_port=port, name="web"),))
        clients = Clients(exec_sync=self.exec_sync, http=self.http, runtime_answers=self.answers)
        await run_hook(
            handler,
            pod=POD,
            container=container,
            container_id="id",
            address=lambda: self.address,
            clients=clients,
            recorder=self,
        )

    async def failure(self, handler: LifecycleHandler) -> str:
        with pytest.raises(HookError) as caught:
            await self.run(handler)
        return str(caught.value)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with HttpClient() as http:
        yield World(http)


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


def http(port: int | str, **more: object) -> LifecycleHandler:
    return LifecycleHandler(http_get=HTTPGetAction(port=port, **more))  # type: ignore[arg-type]


# ---- exec -----------------------------------------------------------------------------
async def test_a_command_runs_as_written_and_without_timeout(world: World) -> None:
    await world.run(LifecycleHandler(exec=ExecAction(command=("echo", "$(HOME)"))))
    assert world.calls == [("id", ("echo", "$(HOME)"), 0, None)]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            ExecResult(exit_code=1, stdout=b"", stderr=b""),
            "command 'sh -c exit 1' exited with 1: , message: \"\"",
            id="silent",
        ),
        pytest.param(
            ExecResult(exit_code=3, stdout=b"one\n", stderr=b'a "b"\t\xff'),
            'command \'sh -c exit 1\' exited with 3: a "b"\t\ufffd, message: "one\\na \\"b\\"\\t\\xff"',
            id="output as Go quotes it",
        ),
        pytest.param(
            ContainerRuntimeError("container is in CONTAINER_EXITED state"),
            'rpc error: code = Unknown desc = container is in CONTAINER_EXITED state, message: ""',
            id="the container is gone",
        ),
    ],
)
async def test_a_command_that_fails(world: World, answer: ExecResult | ContainerRuntimeError, text: str) -> None:
    world.answer = answer
    handler = LifecycleHandler(exec=ExecAction(command=("sh", "-c", "exit 1")))
    assert await world.failure(handler) == f"Exec lifecycle hook ([sh -c exit 1]) {WHERE}{text}"


# ---- httpGet --------------------------------------------------------------------------
@pytest.mark.parametrize("status", ["200 OK", "302 Found", "404 Not Found", "500 Oops"])
async def test_any_response_is_a_success(world: World, status: str) -> None:
    async with http_server(always(response(status))) as server:
        await world.run(http("web", path="/x"), port=server.port)
    assert server.lines[0] == "GET /x HTTP/1.1"
    assert "User-Agent: kube-lifecycle/1.36" in server.lines


async def test_a_response_whose_body_breaks_off_is_a_success(world: World) -> None:
    async with http_server(always(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")) as server:
        await world.run(http(server.port))


async def test_no_response_is_a_failure(world: World, closed_port: int) -> None:
    text = f'Get "http://127.0.0.1:{closed_port}/x": dial tcp 127.0.0.1:{closed_port}: connect: connection refused'
    assert await world.failure(http(closed_port, path="/x")) == f"HTTP lifecycle hook (/x) {WHERE}{text}"


async def test_an_unknown_port_name_is_a_failure(world: World) -> None:
    text = 'strconv.Atoi: parsing "nope": invalid syntax'
    assert await world.failure(http("nope")) == f"HTTP lifecycle hook (/) {WHERE}{text}"


async def test_a_pod_without_address_is_a_failure_unless_the_hook_names_a_host(world: World) -> None:
    world.address = ""
    start = f"HTTP lifecycle hook (/) {WHERE}failed to find networking container: "
    assert (await world.failure(http(80))).startswith(start)
    async with http_server(always(response("200 OK"))) as server:
        await world.run(http(server.port, host="127.0.0.1"))


# ---- HTTPS at a server without TLS -----------------------------------------------------
async def half_blind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A plain HTTP server: answers what is no HTTP with 400."""
    head = await reader.read(1000)
    if head.startswith(b"GET"):
        heads.append(head)
        writer.write(response("200 OK"))
    else:
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
    await writer.drain()


heads: list[bytes] = []


async def test_plain_http_behind_https_is_asked_again_without_credentials(world: World) -> None:
    heads.clear()
    headers = (HTTPHeader(name="authorization", value="Basic x"), HTTPHeader(name="X-A", value="1"))
    async with tcp_server(half_blind) as port:
        await world.run(http(port, scheme="HTTPS", http_headers=headers))
    assert b"X-A: 1\r\n" in heads[0]
    assert b"Authorization" not in heads[0]
    message = f"request to HTTPS lifecycle hook 127.0.0.1:{port} got HTTP response, retry with HTTP succeeded"
    assert world.events == [Event(type="Warning", reason="LifecycleHTTPFallback", message=message)]


async def test_when_the_second_try_fails_too_the_first_error_is_told(world: World) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not (await reader.read(1000)).startswith(b"GET"):
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    async with tcp_server(rude) as port:
        text = await world.failure(http(port, scheme="HTTPS"))
    url = f"https://127.0.0.1:{port}/"
    reason = "http: server gave HTTP response to HTTPS client"
    assert text == f'HTTP lifecycle hook (/) {WHERE}Get "{url}": {reason}'
    assert world.events == []


async def test_another_tls_error_is_not_tried_again(world: World) -> None:
    connections = 0

    async def hangs_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read(1000)

    async with tcp_server(hangs_up) as port:
        assert "EOF" in await world.failure(http(port, scheme="HTTPS"))
    assert connections == 1


# ---- sleep, and what is no hook ----------------------------------------------------------
@pytest.mark.looptime
@pytest.mark.parametrize("seconds", [0, 7])
async def test_sleep_waits_its_seconds(seconds: int) -> None:
    await World(HttpClient()).run(LifecycleHandler(sleep=SleepAction(seconds=seconds)))
    assert asyncio.get_running_loop().time() == seconds


async def test_a_tcp_socket_hook_always_fails(world: World) -> None:
    text = await world.failure(LifecycleHandler(tcp_socket=TCPSocketAction(port=80)))
    assert text.startswith("Cannot run handler: invalid handler: ")
