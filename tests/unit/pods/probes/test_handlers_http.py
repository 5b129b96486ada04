"""httpGet probes against real servers (PH 6.3)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikubelet.api.pod import Container, ContainerPort, HTTPGetAction, HTTPHeader
from minikubelet.pods.probes.handlers import http_get
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Outcome, Target, error, failure
from minikubelet.pods.probes.handlers.http_client import HttpClient
from tests.support.http_server import Answer, always, http_server, response, tcp_server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient() as opened:
        yield opened


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder: Path = tmp_path_factory.mktemp("tls")
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "cert")]
    subject = ["-subj", "/CN=somebody.else", "-days", "1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


def target(port: int, address: str = "127.0.0.1") -> Target:
    container = Container(name="a", ports=(ContainerPort(container_port=port, name="web"),))
    return Target(container=container, container_id="id", address=address)


async def get(client: HttpClient, action: HTTPGetAction, *, port: int = 0, timeout: float = 5) -> Attempt:  # noqa: ASYNC109
    return await http_get.probe(client, action, target(port), timeout=timeout)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("200 OK", SUCCESS),
        ("204 No Content", SUCCESS),
        ("299 Fine", SUCCESS),
        ("304 Not Modified", Attempt(outcome=Outcome.WARNING, output="Probe terminated redirects, Response body: ")),
        ("400 Bad Request", failure("HTTP probe failed with statuscode: 400")),
        ("404 Not Found", failure("HTTP probe failed with statuscode: 404")),
        ("500 Internal Server Error", failure("HTTP probe failed with statuscode: 500")),
        ("101 Switching Protocols", failure("HTTP probe failed with statuscode: 101")),
    ],
)
async def test_each_class_of_status(client: HttpClient, status: str, expected: Attempt) -> None:
    async with http_server(always(response(status))) as server:
        assert await get(client, HTTPGetAction(port=server.port)) == expected


async def test_a_server_of_http_1_0_without_length_is_understood(client: HttpClient) -> None:
    async with http_server(always(b"HTTP/1.0 200 OK\r\n\r\nbody")) as server:
        assert await get(client, HTTPGetAction(port=server.port)) == SUCCESS


# ---- the request -------------------------------------------------------------------
async def test_the_request_is_the_kubelets(client: HttpClient) -> None:
    async with http_server(always(response("200 OK"))) as server:
        await get(client, HTTPGetAction(port=server.port))
    assert server.lines[0] == "GET / HTTP/1.1"
    assert sorted(server.lines[1:]) == [
        "Accept: */*",
        "Connection: close",
        f"Host: 127.0.0.1:{server.port}",
        "User-Agent: kube-probe/1.36",
    ]


@pytest.mark.parametrize(
    ("given", "sent", "absent"),
    [
        pytest.param([("x-a", "1"), ("X-A", "2")], ["X-A: 1", "X-A: 2"], [], id="canonical names, duplicates as lines"),
        pytest.param([("Host", "h.example")], ["Host: h.example"], ["Host: 127"], id="Host replaces the Host line"),
        pytest.param([("user-agent", "me")], ["User-Agent: me"], ["User-Agent: kube"], id="a User-Agent of its own"),
        pytest.param([("User-Agent", "")], [], ["User-Agent"], id="an empty User-Agent is left out"),
        pytest.param([("accept", "text/plain")], ["Accept: text/plain"], ["Accept: */*"], id="an Accept of its own"),
        pytest.param([("Accept", "")], [], ["Accept"], id="an empty Accept is left out"),
        pytest.param([("connection", "x")], ["Connection: x"], ["Connection: close"], id="a Connection of its own"),
        pytest.param([("content-length", "5")], [], ["Content-Length"], id="framing is not for the manifest to say"),
    ],
)
async def test_headers_of_the_probe(
    client: HttpClient, given: list[tuple[str, str]], sent: list[str], absent: list[str]
) -> None:
    headers = tuple(HTTPHeader(name=name, value=value) for name, value in given)
    async with http_server(always(response("200 OK"))) as server:
        assert await get(client, HTTPGetAction(port=server.port, http_headers=headers)) == SUCCESS
    assert [line for line in server.lines if line in sent] == sent
    assert not [line for line in server.lines for start in absent if line.startswith(start)]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/", "/"),
        ("healthz", "/healthz"),
        ("/a/b?x=1&y=%20z", "/a/b?x=1&y=%20z"),
        ("/a#fragment", "/a"),
        ("http://other.example/x?q", "/x?q"),
        ("/with blank", "/with%20blank"),
        ("/100%", "/100%25"),
        ("/%zz?a", "/%25zz%3Fa"),
        ("/a?b=%zz", "/a?b=%zz"),
        ("/a\nb", "/a%0Ab"),
        ("/%41%2fb", "/%41%2fb"),
        ("/ü", "/%C3%BC"),
        ("", "/"),
    ],
)
async def test_the_path_is_read_as_a_url_reference(client: HttpClient, path: str, line: str) -> None:
    async with http_server(always(response("200 OK"))) as server:
        assert await get(client, HTTPGetAction(port=server.port, path=path)) == SUCCESS
    assert server.lines[0] == f"GET {line} HTTP/1.1"


async def test_a_named_port_is_looked_up_in_the_container(client: HttpClient) -> None:
    async with http_server(always(response("200 OK"))) as server:
        assert await get(client, HTTPGetAction(port="web"), port=server.port) == SUCCESS


async def test_an_unknown_port_name_is_an_error(client: HttpClient) -> None:
    assert await get(client, HTTPGetAction(port="x")) == error('strconv.Atoi: parsing "x": invalid syntax')


async def test_each_attempt_has_a_connection_of_its_own_and_no_proxy(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readline():
            writer.write(response("200 OK"))

    async with tcp_server(serve) as port:
        for _ in range(3):
            await get(client, HTTPGetAction(port=port))
    assert connections == 3


async def test_any_certificate_will_do(client: HttpClient, tls: ssl.SSLContext) -> None:
    async with http_server(always(response("200 OK")), tls=tls) as server:
        assert await get(client, HTTPGetAction(port=server.port, scheme="HTTPS")) == SUCCESS


# ---- redirects ---------------------------------------------------------------------
def by_path(**answers: bytes) -> Answer:
    async def answer(head: bytes) -> bytes:
        return answers[head.split(b" ")[1].decode().removeprefix("/")]

    return answer


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
async def test_a_redirect_on_the_same_host_is_followed(client: HttpClient, status: str) -> None:
    answers = by_path(start=response(f"{status} Away", Location="/end"), end=response("404 Not Found"))
    async with http_server(answers) as server:
        attempt = await get(client, HTTPGetAction(port=server.port, path="/start"))
    assert attempt == failure("HTTP probe failed with statuscode: 404")


async def test_a_redirect_to_another_port_of_the_host_is_followed(client: HttpClient) -> None:
    async with http_server(always(response("200 OK"))) as second:
        location = f"http://127.0.0.1:{second.port}/x"
        headers = (HTTPHeader(name="Host", value="h.example"),)
        async with http_server(always(response("302 Found", Location=location))) as first:
            assert await get(client, HTTPGetAction(port=first.port, http_headers=headers)) == SUCCESS
    assert second.lines[0] == "GET /x HTTP/1.1"
    assert f"Host: 127.0.0.1:{second.port}" in second.lines


async def test_a_redirect_to_another_host_is_the_answer(client: HttpClient) -> None:
    away = response("302 Found", "body", Location="http://other.example/x")
    async with http_server(always(away)) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    expected = "Probe terminated redirects, Response body: body"
    assert attempt == Attempt(outcome=Outcome.WARNING, output=expected)


@pytest.mark.parametrize("location", ["http://[", "ftp://127.0.0.1/x"])
async def test_a_redirect_that_cannot_be_followed_is_a_failure(client: HttpClient, location: str) -> None:
    async with http_server(always(response("302 Found", Location=location))) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    assert attempt.outcome is Outcome.FAILURE
    assert attempt.output.startswith('Get "')


async def test_the_eleventh_request_is_not_made(client: HttpClient) -> None:
    async with http_server(always(response("302 Found", Location="/loop"))) as server:
        attempt = await get(client, HTTPGetAction(port=server.port, path="/loop"))
    assert attempt == failure('Get "/loop": stopped after 10 redirects')
    assert len(server.heads) == 10


# ---- what can go wrong ---------------------------------------------------------------
async def test_a_closed_port(client: HttpClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    attempt = await get(client, HTTPGetAction(port=port, path="/x"))
    url = f"http://127.0.0.1:{port}/x"
    assert attempt == failure(f'Get "{url}": dial tcp 127.0.0.1:{port}: connect: connection refused')


async def test_no_answer_in_time(client: HttpClient) -> None:
    async def never(_head: bytes) -> bytes:
        await asyncio.sleep(5)
        return b""

    async with http_server(never) as server:
        attempt = await get(client, HTTPGetAction(port=server.port), timeout=0.1)
    reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert attempt == failure(f'Get "http://127.0.0.1:{server.port}/": {reason}')


async def test_a_server_that_hangs_up(client: HttpClient) -> None:
    async with http_server(always(b"")) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    assert attempt == failure(f'Get "http://127.0.0.1:{server.port}/": EOF')


async def test_a_server_that_resets_the_connection(client: HttpClient) -> None:
    async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        linger_for_no_time = struct.pack("ii", 1, 0)  # makes the kernel answer with a reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_for_no_time)

    async with tcp_server(resets) as port:
        attempt = await get(client, HTTPGetAction(port=port))
    assert attempt == failure(
        f'Get "http://127.0.0.1:{port}/": read tcp 127.0.0.1:{port}: read: connection reset by peer'
    )


async def test_a_server_that_speaks_no_http(client: HttpClient) -> None:
    async with http_server(always(b"SSH-2.0-OpenSSH\r\n\r\n")) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    assert attempt.outcome is Outcome.FAILURE
    assert "malformed HTTP response" in attempt.output


async def test_an_unknown_port_name_and_a_port_out_of_range_are_errors(client: HttpClient) -> None:
    assert await get(client, HTTPGetAction(port=70000)) == error("invalid port number: 70000")
    assert (await get(client, HTTPGetAction(port="nope"))).outcome is Outcome.ERROR


async def test_plain_http_behind_https(client: HttpClient) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    async with tcp_server(serve) as port:
        attempt = await get(client, HTTPGetAction(port=port, scheme="HTTPS"))
    assert attempt == failure(f'Get "https://127.0.0.1:{port}/": http: server gave HTTP response to HTTPS client')


async def test_a_body_that_breaks_off_is_an_error_in_failure_state(client: HttpClient) -> None:
    async with http_server(always(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nab")) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    assert attempt == error("unexpected EOF", state="failure")


async def test_a_body_that_stalls_is_an_error_in_failure_state(client: HttpClient) -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nab")
        await asyncio.sleep(2)

    async with tcp_server(serve) as port:
        attempt = await get(client, HTTPGetAction(port=port), timeout=0.2)
    reason = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    assert attempt == error(reason, state="failure")


async def test_no_more_of_a_body_is_read_than_10240_bytes(client: HttpClient) -> None:
    async with http_server(always(response("304 Not Modified"))) as server:
        assert (await get(client, HTTPGetAction(port=server.port))).outcome is Outcome.WARNING
    endless = b"HTTP/1.1 302 Found\r\nLocation: http://other/\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 20000
    async with http_server(always(endless)) as server:
        attempt = await get(client, HTTPGetAction(port=server.port))
    assert attempt.output == "Probe terminated redirects, Response body: " + "x" * 10240


async def test_an_ipv6_host_stands_in_brackets(client: HttpClient) -> None:
    with socket.socket(socket.AF_INET6) as unused:
        unused.bind(("::1", 0))
        port = unused.getsockname()[1]
    attempt = await http_get.probe(client, HTTPGetAction(port=port), target(0, address="::1"), timeout=5)
    assert attempt == failure(f'Get "http://[::1]:{port}/": dial tcp [::1]:{port}: connect: connection refused')
