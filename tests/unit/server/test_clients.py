"""What is of no use without its client ends with it, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from aiohttp import web

from minikubelet.server.app import make_app
from minikubelet.server.clients import ClientGoneError, while_asked
from minikubelet.server.control import SOCKET, Step, operation, serve_control
from tests.unit.server.test_control import PARTS

REQUEST = b"POST /work HTTP/1.1\r\nHost: x\r\n\r\n"


class Work:
    """Goes on until it is told; notes how it ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.finish = asyncio.Event()
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        self.began.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.end.set_result("cancelled")
            raise
        self.end.set_result("done")
        return "it is done"

    def app(self) -> web.Application:
        async def work(request: web.Request) -> AsyncGenerator[Step, None]:
            try:
                yield Step(message=await while_asked(request, self.run()))
            except ClientGoneError:
                return

        return make_app(PARTS, routes=[operation("POST", "/work", work)], on_network=False)


async def test_it_is_cancelled_when_the_client_goes(tmp_path: Path) -> None:
    work = Work()
    async with asyncio.timeout(10), serve_control(work.app(), tmp_path / SOCKET):
        _, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
        writer.write(REQUEST)
        await work.began.wait()
        writer.close()
        assert await work.end == "cancelled"


@pytest.mark.parametrize(
    "more", [b"", b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["waits", "asks for more already"]
)
async def test_it_is_done_for_a_client_that_stays(tmp_path: Path, more: bytes) -> None:
    work = Work()
    async with asyncio.timeout(10), serve_control(work.app(), tmp_path / SOCKET):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
        writer.write(REQUEST)
        await work.began.wait()
        writer.write(more)
        await writer.drain()
        work.finish.set()
        assert b"it is done" in await reader.readuntil(b"it is done")
        assert await work.end == "done"
        writer.close()


async def test_it_is_cancelled_at_the_servers_end(tmp_path: Path) -> None:
    work = Work()
    async with asyncio.timeout(10):
        async with serve_control(work.app(), tmp_path / SOCKET):
            _, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
            writer.write(REQUEST)
            await work.began.wait()
        assert await work.end == "cancelled"
        writer.close()
