"""The control socket: who may open it, what becomes of an old one, and how commands are answered on it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector, web
from structlog.testing import capture_logs

from minikubelet.api.refusals import RefusedError
from minikubelet.server.app import ListenError, make_app
from minikubelet.server.control import SOCKET, Operation, Step, operation, serve_control
from minikubelet.server.parts import ManifestsStatus, Parts, RuntimeStatus, Status

STATUS = Status(
    version="1",
    node="n",
    started_at="2026-01-01T00:00:00Z",
    runtime=RuntimeStatus(endpoint="unix:///x"),
    manifests=ManifestsStatus(folder="/m"),
)


async def no_events() -> list[bytes]:
    return []


PARTS = Parts(pods=lambda: [b"{}"], events=no_events, status=lambda: STATUS)


def app(*operations: Operation) -> web.Application:
    routes = [operation("POST", f"/{run.__name__}", run) for run in operations]
    return make_app(PARTS, routes=routes, on_network=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / SOCKET


@pytest.fixture
async def ask(path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Sends a request to the socket; returns its status and the lines of its answer."""
    async with ClientSession(connector=UnixConnector(path=str(path))) as session:

        async def send(method: str, target: str, **options: Any) -> tuple[int, list[Any]]:
            async with session.request(method, f"http://any.name{target}", **options) as answer:
                return answer.status, [json.loads(line) async for line in answer.content]

        yield send


# who may open it


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
async def test_only_its_owner_may_open_it_whatever_the_umask(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        async with serve_control(app(), path):
            found = path.lstat()
            assert stat.S_ISSOCK(found.st_mode)
            assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o600, os.geteuid())
            assert os.umask(mask) == mask
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_kept_out_by_the_kernel(path: Path) -> None:
    path.parent.chmod(0o755)  # even if the folder lets everybody in
    folder = os.open(path.parent, os.O_PATH)  # (those above it are not ours to open)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect('/proc/self/fd/{folder}/{SOCKET}')"

    async def nobody_connects() -> bytes:
        child = await asyncio.create_subprocess_exec(
            "python3", "-c", connect,
            pass_fds=[folder], user=65534, group=65534, extra_groups=[], cwd="/", stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return (await child.communicate())[1]

    try:
        async with serve_control(app(), path):
            assert b"PermissionError" in await nobody_connects()
            path.chmod(0o666)  # it was nothing else that kept it out
            assert await nobody_connects() == b""
    finally:
        os.close(folder)


# an old one


async def test_what_a_killed_daemon_left_is_replaced_and_the_own_one_removed(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serve_control(app(), path):
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.close()
        await writer.wait_closed()
    assert list(path.parent.iterdir()) == []


async def test_what_a_daemon_killed_while_it_began_left_is_no_hindrance(path: Path) -> None:
    path.with_name(f".{path.name}.new").write_text("")
    async with serve_control(app(), path):
        assert [each.name for each in path.parent.iterdir()] == [SOCKET]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
async def test_something_else_in_its_place_is_left_alone(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(ListenError, match="is no socket: move it away"):
        async with serve_control(app(), path):
            pass
    assert path.exists()


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="No such file or directory"):
        async with serve_control(app(), tmp_path / "none" / SOCKET):
            pass


async def test_a_path_may_be_longer_than_an_address(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    async with serve_control(app(), deep / SOCKET):
        assert (deep / SOCKET).is_socket()


# what it answers


async def test_it_has_all_that_the_port_has_for_any_name_of_host(path: Path, ask: Callable[..., Any]) -> None:
    async with serve_control(app(), path):
        status, (found,) = await ask("GET", "/pods")
        assert (status, found["kind"]) == (200, "PodList")
        status, (found,) = await ask("GET", "/status")
        assert (status, found["node"]) == (200, "n")


async def test_steps_come_one_by_one_and_a_status_at_the_end(path: Path) -> None:
    go_on = asyncio.Event()

    async def work(_: web.Request) -> AsyncGenerator[Step, None]:
        yield Step(message="begun", object="job.batch/x")
        await go_on.wait()
        yield Step(message="done")

    session = ClientSession(connector=UnixConnector(path=str(path)))
    async with serve_control(app(work), path), session, session.post("http://x/work") as answer:
        lines = answer.content
        assert json.loads(await lines.readline()) == {"message": "begun", "object": "job.batch/x"}
        go_on.set()
        assert json.loads(await lines.readline()) == {"message": "done"}
        end = json.loads(await lines.readline())
        assert (end["kind"], end["status"], end["code"], await lines.read()) == ("Status", "Success", 200, b"")


async def test_nothing_to_tell_is_a_success(path: Path, ask: Callable[..., Any]) -> None:
    async def quiet(_: web.Request) -> AsyncGenerator[Step, None]:
        nothing: tuple[Step, ...] = ()
        for step in nothing:
            yield step

    async with serve_control(app(quiet), path):
        status, (end,) = await ask("POST", "/quiet")
        assert (status, end["status"]) == (200, "Success")


async def test_a_refusal_is_a_status_with_its_code(path: Path, ask: Callable[..., Any]) -> None:
    async def refuse(request: web.Request) -> AsyncGenerator[Step, None]:
        if "fine" not in request.query:
            raise RefusedError("NotFound", 'jobs.batch "x" not found')
        yield Step(message="never")

    async with serve_control(app(refuse), path):
        status, (end,) = await ask("POST", "/refuse")
        assert (status, end["status"], end["reason"], end["code"]) == (404, "Failure", "NotFound", 404)
        assert end["message"] == 'jobs.batch "x" not found'


@pytest.mark.parametrize(
    ("error", "reason"), [(RefusedError("Conflict", "no more"), "Conflict"), (ValueError("secret"), "InternalError")]
)
async def test_a_failure_on_the_way_is_the_status_at_the_end(
    path: Path, ask: Callable[..., Any], error: Exception, reason: str
) -> None:
    async def fail(_: web.Request) -> AsyncGenerator[Step, None]:
        yield Step(message="begun")
        raise error

    async with serve_control(app(fail), path):
        status, (begun, end) = await ask("POST", "/fail")
        assert (status, begun["message"], end["status"], end["reason"]) == (200, "begun", "Failure", reason)
        assert "secret" not in json.dumps(end)


async def test_a_client_that_goes_away_ends_the_telling_only(path: Path) -> None:
    closed, begun = asyncio.Event(), asyncio.Event()

    async def long(_: web.Request) -> AsyncGenerator[Step, None]:
        try:
            while True:
                yield Step(message="on")
                begun.set()
                await asyncio.sleep(0)
        finally:
            closed.set()

    async with serve_control(app(long), path):
        session = ClientSession(connector=UnixConnector(path=str(path)))
        async with session, session.post("http://x/long"):
            await begun.wait()
        await closed.wait()


async def test_a_client_that_is_gone_when_a_command_ends_is_nobodys_error(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> AsyncGenerator[Step, None]:
        yield Step(message="on")
        begun.set()
        await gone.wait()
        ended.set()

    with capture_logs() as logs:
        async with serve_control(app(slow), path):
            session = ClientSession(connector=UnixConnector(path=str(path)))
            async with session, session.post("http://x/slow"):
                await begun.wait()
            await asyncio.sleep(0.05)  # for the server to see the end of the connection
            gone.set()
            await ended.wait()
    assert [it for it in logs if it["log_level"] != "info"] == []
    assert [it for it in caplog.records if it.levelname != "DEBUG"] == []
