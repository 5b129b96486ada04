"""Which handler a probe goes to, and what a run is reported as (PH 6.1, 10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from minikubelet.api.pod import Container, ExecAction, GRPCAction, HTTPGetAction, Probe, TCPSocketAction
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Outcome, Target, error, failure
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.http_client import HttpClient
from minikubelet.pods.probes.runner import event_of, run_probe
from minikubelet.runtime.cri import ExecResult
from tests.support.http_server import always, http_server, response


async def exec_sync(
    container_id: str,
    command: Sequence[str],
    *,
    timeout: int,  # noqa: ASYNC109
    patience: float | None = None,
) -> ExecResult:
    return ExecResult(exit_code=1, stdout=f"{command} {timeout} {patience}".encode(), stderr=b"")


async def answers() -> bool:
    return True


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with HttpClient() as http:
        yield Clients(exec_sync=exec_sync, http=http, runtime_answers=answers)


async def run(clients: Clients, probe: Probe, *, address: str = "127.0.0.1") -> Attempt:
    target = Target(container=Container(name="a"), container_id="id", address=address)
    async with asyncio.TaskGroup() as tasks:
        return await run_probe(probe, target, clients=clients, spawn=tasks.create_task)


async def test_each_handler_gets_its_probe(clients: Clients) -> None:
    assert (await run(clients, Probe(exec=ExecAction(command=("x",))))).output == "['x'] 1 120.0"
    async with http_server(always(response("418 Teapot"))) as server:
        assert await run(clients, Probe(tcp_socket=TCPSocketAction(port=server.port))) == SUCCESS
        attempt = await run(clients, Probe(http_get=HTTPGetAction(port=server.port)))
        assert attempt == failure("HTTP probe failed with statuscode: 418")
        attempt = await run(clients, Probe(grpc=GRPCAction(port=server.port)))
        assert attempt.output.startswith("timeout: failed to connect service "), "it speaks no HTTP/2"


async def test_only_what_goes_to_the_pod_needs_its_address(clients: Clients) -> None:
    nowhere = error("the pod has no IP address")
    for probe in (
        Probe(http_get=HTTPGetAction(port=1)),
        Probe(tcp_socket=TCPSocketAction(port=1)),
        Probe(grpc=GRPCAction(port=1)),
    ):
        assert await run(clients, probe, address="") == nowhere
    assert (await run(clients, Probe(exec=ExecAction(command=("x",))), address="")).outcome is Outcome.FAILURE
    elsewhere = Probe(tcp_socket=TCPSocketAction(port=1, host="127.0.0.1"))
    assert (await run(clients, elsewhere, address="")).outcome is Outcome.FAILURE


async def test_a_probe_without_handler_is_an_error(clients: Clients) -> None:
    assert (await run(clients, Probe())).outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("kind", "attempt", "expected"),
    [
        ("liveness", SUCCESS, None),
        ("readiness", Attempt(outcome=Outcome.WARNING, output="w"), ("ProbeWarning", "Readiness probe warning: w")),
        ("startup", failure("f"), ("Unhealthy", "Startup probe failed: f")),
        ("liveness", error("e"), ("Unhealthy", "Liveness probe errored and resulted in unknown state: e")),
        (
            "liveness",
            error("e", state="failure"),
            ("Unhealthy", "Liveness probe errored and resulted in failure state: e"),
        ),
    ],
)
def test_what_a_run_is_reported_as(kind: str, attempt: Attempt, expected: tuple[str, str] | None) -> None:
    event = event_of(kind, attempt, container="a")
    if expected is None:
        assert event is None
    else:
        assert event == Event(type="Warning", reason=expected[0], message=expected[1], container="a")
