"""postStart and preStop hooks: what one does, and what is said when it fails (PH 7.4).

`pods/executor.py` runs them and decides what a failure means. Nothing is retried and nothing has a timeout: a hook ends
when it ends, when its container dies (exec), or when the caller cancels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from minikubelet.api.pod import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.pods import gotext
from minikubelet.pods.probes.handlers.base import PortError, resolve_port
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.command import rpc_text
from minikubelet.pods.probes.handlers.http_client import NO_TLS_THERE, TransportError, request_for
from minikubelet.runtime.errors import ContainerRuntimeError

USER_AGENT = "kube-lifecycle/1.36"


class Recorder(Protocol):
    def event(self, pod: Pod, event: Event) -> None: ...


class HookError(Exception):
    """The hook has failed; the text is what a container's status shows for it."""


class _FailedError(Exception):
    """What failed, and (of a command) what it had printed."""

    def __init__(self, reason: str, output: bytes | None = None) -> None:
        super().__init__(reason)
        self.output = output


async def run_hook(
    handler: LifecycleHandler,
    *,
    pod: Pod,
    container: Container,
    container_id: str,
    address: Callable[[], str],
    clients: Clients,
    recorder: Recorder,
) -> None:
    """Run the hook to its end. Raises HookError with the kubelet's message (LC 6.1).

    `address` gives the IP that httpGet goes to when the hook names no host, or "" when there is none.
    """
    try:
        if handler.exec is not None:
            what = f"Exec lifecycle hook ([{' '.join(handler.exec.command)}])"
            await _exec(handler.exec, container_id, clients)
        elif handler.http_get is not None:
            what = f"HTTP lifecycle hook ({handler.http_get.path})"
            event = await _http_get(handler.http_get, container=container, address=address(), clients=clients)
            if event is not None:
                recorder.event(pod, event)
        elif handler.sleep is not None:
            await asyncio.sleep(handler.sleep.seconds)
        else:
            given = "tcpSocket cannot be used for a hook" if handler.tcp_socket else "it has no action"
            raise HookError(f"Cannot run handler: invalid handler: {given}")
    except _FailedError as problem:
        meta = pod.metadata
        message = f'{what} for Container "{container.name}" in Pod "{meta.name}_{meta.namespace}({meta.uid})" failed'
        output = "" if problem.output is None else f", message: {gotext.quote(problem.output)}"
        raise HookError(f"{message} - error: {problem}{output}") from problem


async def _exec(action: ExecAction, container_id: str, clients: Clients) -> None:
    try:
        result = await clients.exec_sync(container_id, action.command, timeout=0)
    except ContainerRuntimeError as problem:
        raise _FailedError(rpc_text(problem), b"") from problem
    if result.exit_code != 0:
        stderr = result.stderr.decode(errors="replace")
        reason = f"command '{' '.join(action.command)}' exited with {result.exit_code}: {stderr}"
        raise _FailedError(reason, result.stdout + result.stderr)


async def _http_get(action: HTTPGetAction, *, container: Container, address: str, clients: Clients) -> Event | None:
    """Any response will do. A plain HTTP server behind HTTPS is asked once more, without TLS and credentials.

    Returns the event to record when that was needed.
    """
    if not (action.host or address):
        raise _FailedError("failed to find networking container: the pod has no IP address")
    try:
        port = resolve_port(action.port, container)
    except PortError as problem:
        raise _FailedError(str(problem)) from problem
    request = request_for(action, host=action.host or address, port=port, user_agent=USER_AGENT)
    try:
        await clients.http.get(request, timeout=None)
    except TransportError as problem:
        if problem.reason != NO_TLS_THERE:
            raise _FailedError(str(problem)) from problem
        safe = tuple(header for header in request.headers if header[0] != "Authorization")
        try:
            await clients.http.get(msgspec.structs.replace(request, scheme="http", headers=safe), timeout=None)
        except TransportError:
            raise _FailedError(str(problem)) from problem
        where = gotext.join_host_port(request.host, request.port)
        message = f"request to HTTPS lifecycle hook {where} got HTTP response, retry with HTTP succeeded"
        return Event(type="Warning", reason="LifecycleHTTPFallback", message=message)
    return None
