"""A gRPC proxy between the daemon and containerd: it passes bytes, and does what a test says at a certain call.

For half-made things that can't be brought about otherwise: a daemon that dies in the middle of a call, a reply that is
lost, a call that the runtime never saw. Every method is passed on as a bidirectional stream of bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

#: Called with the method's short name (`RunPodSandbox`) and a function that passes the call on and waits for its end.
#: Returning normally after that gives the daemon the answer; raising `LostReply` gives it UNAVAILABLE instead, raising
#: `Refused` gives it that text.
Hook = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]

_OPTIONS = (("grpc.max_receive_message_length", 16 << 20), ("grpc.max_send_message_length", 16 << 20))


class LostReply(Exception):  # noqa: N818 - what happens to the call
    """The daemon sees the connection break instead of an answer."""


class Refused(Exception):  # noqa: N818 - what happens to the call
    """The daemon is given this error instead of an answer."""


def _same(data: bytes) -> bytes:
    return data


class GRPCProxy(grpc.GenericRpcHandler):  # type: ignore[misc,unused-ignore]
    def __init__(self, *, upstream: Path, listen: Path) -> None:
        self.upstream, self.listen = upstream, listen
        #: Methods seen, in order of their arrival.
        self.calls: list[str] = []
        self.hook: Hook | None = None
        self._channel: grpc.aio.Channel | None = None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        given = handler_call_details.invocation_metadata
        metadata = tuple((k, str(v)) for k, v in given if k == "containerd-namespace")

        async def pass_on(
            requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
        ) -> AsyncIterator[bytes]:
            async for answer in self._pass_on(method, metadata, requests, context):
                yield answer

        return grpc.stream_stream_rpc_method_handler(pass_on, request_deserializer=_same, response_serializer=_same)

    async def _pass_on(
        self, method: str, metadata: tuple[tuple[str, str], ...], requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        name = method.rsplit("/", 1)[-1]
        self.calls.append(name)
        assert self._channel is not None
        if self.hook is None or name in ("Subscribe", "Write"):
            call = self._channel.stream_stream(method, _same, _same)(requests, metadata=metadata)
            try:
                async for answer in call:
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
            return
        body = [request async for request in requests]
        answers: list[bytes] = []
        failure: list[grpc.aio.AioRpcError] = []

        async def proceed() -> None:
            assert self._channel is not None
            call = self._channel.stream_stream(method, _same, _same)(iter(body), metadata=metadata)
            try:
                answers.extend([answer async for answer in call])
            except grpc.aio.AioRpcError as error:
                failure.append(error)

        try:
            await self.hook(name, proceed)
        except LostReply:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the test lost this reply")
        except Refused as refused:
            await context.abort(grpc.StatusCode.UNKNOWN, str(refused))
        if failure:
            await context.abort(failure[0].code(), failure[0].details() or "")
        for answer in answers:
            yield answer

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[GRPCProxy]:
        async with grpc.aio.insecure_channel(f"unix://{self.upstream}", options=_OPTIONS) as self._channel:
            server = grpc.aio.server(options=_OPTIONS)
            server.add_generic_rpc_handlers((self,))
            server.add_insecure_port(f"unix://{self.listen}")
            await server.start()
            try:
                yield self
            finally:
                await server.stop(None)
                await asyncio.sleep(0)
