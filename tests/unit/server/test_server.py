"""The read-only server, asked by a real client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.recorder import RecordedEvent
from minikubelet.server.app import ListenError, is_loopback_host, make_app, serve
from minikubelet.server.events import encoded_events
from minikubelet.server.parts import ManifestsStatus, Parts, RuntimeStatus, Status

PODS = [msgspec.json.encode(Pod(metadata=ObjectMeta(name=name, namespace="default"))) for name in ("a", "b")]
STATUS = Status(
    version="1",
    node="n",
    started_at="2026-01-01T00:00:00Z",
    runtime=RuntimeStatus(endpoint="unix:///x", connected=True),
    manifests=ManifestsStatus(folder="/m", being_written=("a.yaml",)),
)
EVENT = RecordedEvent(
    namespace="default",
    pod="web",
    uid="u",
    event=Event(type="Normal", reason="Started", message="Container started", container="m"),
    field_path="spec.containers{m}",
    count=2,
    first_at=1767225600.9,
    last_at=1767225660.0,
)

Client = TestClient[web.Request, web.Application]


class Daemon:
    """What the server is given; tests break it."""

    def __init__(self) -> None:
        self.containerd: str | None = None
        self.pods: Callable[[], list[bytes]] = lambda: PODS

    async def events(self) -> Iterable[bytes]:
        return encoded_events([EVENT], node="n")

    def parts(self) -> Parts:
        return Parts(
            pods=lambda: self.pods(),  # noqa: PLW0108  tests replace it later
            events=self.events,
            status=lambda: STATUS,
            livez={"loop": lambda: None},
            readyz={"containerd": lambda: self.containerd, "first-sync": lambda: None},
        )


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
async def client(daemon: Daemon) -> AsyncIterator[Client]:
    async def extra(_: web.Request) -> web.Response:
        return web.Response(text="more")

    async with TestClient(TestServer(make_app(daemon.parts(), routes=[web.get("/metrics", extra)]))) as client:
        yield client


async def body(client: Client, path: str, *, status: int = 200, **options: Any) -> Any:
    async with client.get(path, **options) as answer:
        assert answer.status == status
        return await (answer.json() if answer.content_type == "application/json" else answer.text())


async def test_pods_are_a_pod_list(client: Client) -> None:
    found = await body(client, "/pods")
    assert (found["kind"], found["apiVersion"], found["metadata"]) == ("PodList", "v1", {})
    assert [pod["metadata"]["name"] for pod in found["items"]] == ["a", "b"]


async def test_no_pods_are_an_empty_list(client: Client, daemon: Daemon) -> None:
    daemon.pods = list
    assert (await body(client, "/pods"))["items"] == []


async def test_events_are_an_event_list(client: Client) -> None:
    found = await body(client, "/events")
    assert found["kind"] == "EventList"
    (event,) = found["items"]
    assert event["involvedObject"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "web",
        "uid": "u",
        "fieldPath": "spec.containers{m}",
    }
    assert (event["reason"], event["message"], event["type"], event["count"]) == (
        "Started",
        "Container started",
        "Normal",
        2,
    )
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
    assert event["metadata"]["name"].startswith("web.")


def test_an_event_without_a_namespace_is_the_nodes() -> None:
    recorded = msgspec.structs.replace(EVENT, namespace="", pod="box", uid="box", field_path="")
    (event,) = map(json.loads, encoded_events([recorded], node="box"))
    assert event["involvedObject"] == {"kind": "Node", "apiVersion": "v1", "name": "box", "uid": "box"}
    assert event["metadata"]["namespace"] == "default"


async def test_status_has_kubernetes_names(client: Client) -> None:
    found = await body(client, "/status")
    assert found["startedAt"] == "2026-01-01T00:00:00Z"
    assert found["manifests"]["beingWritten"] == ["a.yaml"]
    assert msgspec.convert(found, Status) == STATUS


async def test_health_is_a_plain_ok(client: Client) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        assert await body(client, path) == "ok"


async def test_verbose_lists_the_checks(client: Client) -> None:
    assert await body(client, "/readyz?verbose") == "[+]containerd ok\n[+]first-sync ok\nreadyz check passed\n"


async def test_readyz_says_why_not_and_livez_is_another_matter(client: Client, daemon: Daemon) -> None:
    daemon.containerd = "no answer for 3s"
    expected = "[-]containerd failed: no answer for 3s\n[+]first-sync ok\nreadyz check failed\n"
    assert await body(client, "/readyz", status=500) == expected
    assert await body(client, "/livez") == "ok"


async def test_other_rooms_hang_on_their_routes(client: Client) -> None:
    assert await body(client, "/metrics") == "more"


async def test_what_is_not_there_is_a_status_object(client: Client) -> None:
    found = await body(client, "/nope", status=404)
    assert found == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "there is nothing at /nope",
        "reason": "NotFound",
        "code": 404,
    }


async def test_nothing_can_be_changed(client: Client) -> None:
    async with client.post("/pods") as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET,HEAD"
        found = await answer.json()
        assert found["message"] == "/pods does not take POST, only GET, HEAD"
        assert found["reason"] == "MethodNotAllowed"


async def test_an_internal_error_shows_nothing_of_the_insides(client: Client, daemon: Daemon) -> None:
    def broken() -> list[bytes]:
        raise RuntimeError("secret detail")

    daemon.pods = broken
    found = await body(client, "/pods", status=500)
    assert found["reason"] == "InternalError"
    assert "secret" not in json.dumps(found)
    assert await body(client, "/healthz") == "ok"


async def test_a_foreign_host_name_is_refused(client: Client) -> None:
    found = await body(client, "/pods", status=403, headers={"Host": "evil.example:10255"})
    assert found["reason"] == "Forbidden"


@pytest.mark.parametrize(
    ("host", "fine"),
    [
        ("localhost", True),
        ("LOCALHOST:10255", True),
        ("localhost.:1", True),
        ("127.0.0.1", True),
        ("127.1.2.3:80", True),
        ("[::1]:10255", True),
        ("[::1]", True),
        ("example.com", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1:10255", False),
        ("[fd00::1]:1", False),
        ("", False),
    ],
)
def test_hosts_that_are_loopback(host: str, fine: bool) -> None:
    assert is_loopback_host(host) is fine


async def test_serving_begins_and_ends(daemon: Daemon) -> None:
    async with serve(make_app(daemon.parts()), address="127.0.0.1", port=0) as (address, port):
        url = f"http://{address}:{port}/healthz"
        async with ClientSession() as session, session.get(url) as answer:
            assert await answer.text() == "ok"
    with pytest.raises(OSError):
        await asyncio.open_connection(address, port)


async def test_a_port_in_use_is_told_with_what_to_do(daemon: Daemon) -> None:
    async with serve(make_app(daemon.parts()), address="127.0.0.1", port=0) as (_, port):
        with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1 port {port}: .*; set readOnlyPort"):
            async with serve(make_app(daemon.parts()), address="127.0.0.1", port=port):
                pass
