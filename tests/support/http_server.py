"""An HTTP server of few words: it keeps what it was sent, byte for byte, and answers with the bytes it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

#: Gets the request's head, as sent; returns all that is to be sent before the connection is closed.
Answer = Callable[[bytes], Awaitable[bytes]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpServer:
    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[bytes] = []

    @property
    def lines(self) -> list[str]:
        """The lines of the last request's head."""
        return self.heads[-1].decode().split("\r\n")[:-2]


def always(response: bytes) -> Answer:
    async def answer(_head: bytes) -> bytes:
        return response

    return answer


def response(status: str, body: str = "", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(f"{name}: {it}" for name, it in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@contextlib.asynccontextmanager
async def http_server(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpServer]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        served.heads.append(head)
        writer.write(await answer(head))
        await writer.drain()

    async with tcp_server(serve, tls=tls) as port:
        served = HttpServer(port)
        yield served


@contextlib.asynccontextmanager
async def tcp_server(serve: Serve, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a free port of 127.0.0.1. Connections are closed when `serve` returns, and at the end."""
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections[task] = writer
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task, writer in connections.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*connections)
        await asyncio.sleep(0)  # an aborted transport closes its socket in the loop's next round
