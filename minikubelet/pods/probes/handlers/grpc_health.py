"""The grpc probe: one grpc.health.v1.Health/Check (PH 6.5). With `runtime/` the only module that knows gRPC.

The two messages have one field each, so they are written and read by hand instead of from a generated stub.
"""

from __future__ import annotations

import asyncio
import time

import grpc
import grpc.aio

from minikubelet.api.pod import GRPCAction
from minikubelet.pods.gotext import duration, join_host_port, quote
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Target, failure

_METHOD = "/grpc.health.v1.Health/Check"
_STATUS_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_SERVING = 1
_OPTIONS = (
    ("grpc.primary_user_agent", "kube-probe/1.36"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own, without the back-off of an earlier attempt
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


async def probe(action: GRPCAction, target: Target, *, timeout: float) -> Attempt:  # noqa: ASYNC109
    """Ask for the service's health. `timeout` seconds cover connecting, which is retried until then, and the call."""
    address = join_host_port(target.address, action.port)
    deadline = time.monotonic() + timeout
    async with grpc.aio.insecure_channel(
        f"ipv6:{address}" if ":" in target.address else f"ipv4:{address}", _OPTIONS
    ) as channel:
        try:
            async with asyncio.timeout(timeout):
                await channel.channel_ready()
        except TimeoutError:
            within = duration(timeout)
            return failure(
                f"timeout: failed to connect service {quote(address)} within {within}: context deadline exceeded"
            )
        check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            _METHOD, request_serializer=None, response_deserializer=None
        )
        try:
            answer = await check(encode_request(action.service), timeout=max(deadline - time.monotonic(), 0))
        except grpc.aio.AioRpcError as problem:
            return failure(_explain(problem, timeout=timeout))
    status = decode_status(answer)
    if status == _SERVING:
        return SUCCESS
    return failure(f"service unhealthy (responded with {quote(_STATUS_NAMES.get(status, str(status)))})")


def _explain(problem: grpc.aio.AioRpcError, *, timeout: float) -> str:
    if problem.code() is grpc.StatusCode.UNIMPLEMENTED:
        lacking = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return f"{lacking}: {problem.details()}"
    if problem.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {duration(timeout)}"
    code = "".join(word.capitalize() for word in problem.code().name.split("_"))
    return f"error: health rpc probe failed: rpc error: code = {code} desc = {problem.details()}"


def encode_request(service: str) -> bytes:
    """HealthCheckRequest: field 1, the service's name; an empty one is left out."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def decode_status(message: bytes) -> int:
    """HealthCheckResponse: field 1, the status (one byte suffices for its four values); left out it is UNKNOWN."""
    return message[1] if len(message) >= 2 and message[0] == 0x08 else 0


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
