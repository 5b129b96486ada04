"""An HTTP server of few words: it keeps what it was sent, byte for byte, and answers with the bytes it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

#: Gets the request's head, as sent; returns all that is to be sent before the connection is closed.
Answer = Callable[[bytes], Awaitable[bytes]]


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
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            served.heads.append(head)
            writer.write(await answer(head))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    served = HttpServer(server.sockets[0].getsockname()[1])
    try:
        yield served
    finally:
        server.close()
