"""tcpSocket and grpc probes against real servers (PH 6.4, 6.5)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from minikubelet.api.pod import Container, ContainerPort, GRPCAction, TCPSocketAction
from minikubelet.pods.probes.handlers import grpc_health, tcp_socket
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Target, error, failure
from tests.support.http_server import tcp_server

CONTAINER = Container(name="a", ports=(ContainerPort(container_port=1, name="web"),))
TARGET = Target(container=CONTAINER, container_id="id", address="127.0.0.1")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port that takes no further connection: its queue is full and nobody accepts."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_port_that_takes_a_connection_is_a_success() -> None:
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read())

    async with tcp_server(serve) as port:
        assert await tcp_socket.probe(TCPSocketAction(port=port), TARGET, timeout=5) == SUCCESS
        assert await received == b"", "PH 6.4: nothing is sent"


async def test_a_closed_port_is_a_failure_with_gos_words(closed_port: int) -> None:
    attempt = await tcp_socket.probe(TCPSocketAction(port=closed_port), TARGET, timeout=5)
    assert attempt == failure(f"dial tcp 127.0.0.1:{closed_port}: connect: connection refused")


async def test_a_port_that_does_not_answer_times_out(deaf_port: int) -> None:
    attempt = await tcp_socket.probe(TCPSocketAction(port=deaf_port), TARGET, timeout=0.1)
    assert attempt == failure(f"dial tcp 127.0.0.1:{deaf_port}: i/o timeout")


async def test_a_host_of_the_probe_replaces_the_pods_address(closed_port: int) -> None:
    attempt = await tcp_socket.probe(TCPSocketAction(port=closed_port, host="::1"), TARGET, timeout=5)
    assert attempt.output.startswith(f"dial tcp [::1]:{closed_port}: connect: ")


async def test_a_port_name_is_looked_up_in_the_container() -> None:
    attempt = await tcp_socket.probe(TCPSocketAction(port="web"), TARGET, timeout=5)
    assert attempt == failure("dial tcp 127.0.0.1:1: connect: connection refused")


async def test_an_unknown_port_name_is_an_error_and_no_failure() -> None:
    attempt = await tcp_socket.probe(TCPSocketAction(port="nope"), TARGET, timeout=5)
    assert attempt == error('strconv.Atoi: parsing "nope": invalid syntax')


# ---- grpc --------------------------------------------------------------------------
@contextlib.asynccontextmanager
async def grpc_server(servicer: object | None) -> AsyncIterator[int]:
    server = grpc.aio.server()
    if servicer is not None:
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def check(port: int, service: str = "", timeout: float = 5) -> Attempt:  # noqa: ASYNC109
    return await grpc_health.probe(GRPCAction(port=port, service=service), TARGET, timeout=timeout)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("SERVING", SUCCESS),
        ("UNKNOWN", failure('service unhealthy (responded with "UNKNOWN")')),
        ("NOT_SERVING", failure('service unhealthy (responded with "NOT_SERVING")')),
        ("SERVICE_UNKNOWN", failure('service unhealthy (responded with "SERVICE_UNKNOWN")')),
    ],
)
async def test_each_status_of_the_health_service(status: str, expected: Attempt) -> None:
    servicer = health.HealthServicer()
    await servicer.set("db", health_pb2.HealthCheckResponse.ServingStatus.Value(status))
    async with grpc_server(servicer) as port:
        assert await check(port, "db") == expected


async def test_the_user_agent_is_the_kubelets() -> None:
    agents: list[str] = []

    class Servicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
        async def Check(  # noqa: N802
            self, _request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[object, object]
        ) -> health_pb2.HealthCheckResponse:
            agents.extend(str(value) for key, value in context.invocation_metadata() or () if key == "user-agent")
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)

    async with grpc_server(Servicer()) as port:
        assert await check(port) == SUCCESS
    assert [agent.split(" ")[0] for agent in agents] == ["kube-probe/1.36"]


async def test_a_service_that_is_not_known_is_a_failed_call() -> None:
    async with grpc_server(health.HealthServicer()) as port:
        attempt = await check(port, "nope")
    assert attempt.output.startswith("error: health rpc probe failed: rpc error: code = NotFound desc = ")


async def test_a_server_without_health_service_is_told_apart() -> None:
    async with grpc_server(None) as port:
        attempt = await check(port)
    text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
    assert attempt.output.startswith(text)


async def test_an_answer_that_takes_too_long() -> None:
    class Servicer(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
        async def Check(self, _request: object, _context: object) -> None:  # noqa: N802
            await asyncio.Event().wait()

    async with grpc_server(Servicer()) as port:
        assert await check(port, timeout=0.5) == failure("timeout: health rpc did not complete within 500ms")


async def test_a_closed_port_fails_only_after_the_whole_timeout(closed_port: int) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    attempt = await check(closed_port, timeout=1)
    text = f'timeout: failed to connect service "127.0.0.1:{closed_port}" within 1s: context deadline exceeded'
    assert attempt == failure(text)
    assert 0.9 <= loop.time() - began < 3


@pytest.mark.parametrize("service", ["", "a", "x" * 127, "x" * 128, "ü" * 200])
def test_the_handmade_request_is_what_protobuf_makes(service: str) -> None:
    expected = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert grpc_health.encode_request(service) == expected


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_the_answer_is_read_as_protobuf_reads_it(status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
    assert grpc_health.decode_status(health_pb2.HealthCheckResponse(status=status).SerializeToString()) == status
