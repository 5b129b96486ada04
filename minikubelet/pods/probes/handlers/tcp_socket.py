"""The tcpSocket probe: connect, say nothing, close (PH 6.4)."""

from __future__ import annotations

import asyncio

from minikubelet.api.pod import TCPSocketAction
from minikubelet.pods.gotext import dial_error, join_host_port
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, PortError, Target, error, failure, resolve_port


async def probe(action: TCPSocketAction, target: Target, *, timeout: float) -> Attempt:  # noqa: ASYNC109 (the limit is a fact of the probe: its text names it)
    """Whether the port takes a connection within `timeout` seconds.

    The kubelet also sets SO_LINGER on the socket. Here it would let `close` block the event loop, so it is left out.
    """
    try:
        port = resolve_port(action.port, target.container)
    except PortError as problem:
        return error(str(problem))
    host = action.host or target.address
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return failure(f"dial tcp {join_host_port(host, port)}: i/o timeout")
    except OSError as problem:
        return failure(dial_error(host, port, problem))
    writer.close()
    return SUCCESS
