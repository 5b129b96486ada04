"""One run of a probe: up to three attempts by the right handler, and the event that tells of it (PH 6.1)."""

from __future__ import annotations

from collections.abc import Mapping

from minikubelet.api.expansion import expand
from minikubelet.api.pod import Probe
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.probes.handlers import command, grpc_health, http_get, tcp_socket
from minikubelet.pods.probes.handlers.base import Attempt, Outcome, Target, error
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.command import Spawn

#: Attempts per run while they end in errors; anything else ends the run at once.
_ATTEMPTS = 3


async def run_probe(probe: Probe, target: Target, *, clients: Clients, spawn: Spawn) -> Attempt:
    """The last attempt's result. `spawn` starts an exec call, which may outlive the run (see `handlers.command`)."""
    for _ in range(_ATTEMPTS):
        attempt = await _attempt(probe, target, clients=clients, spawn=spawn)
        if attempt.outcome is not Outcome.ERROR:
            break
    return attempt


async def _attempt(probe: Probe, target: Target, *, clients: Clients, spawn: Spawn) -> Attempt:
    timeout = probe.timeout_seconds
    if probe.exec is not None:
        expanded = [expand(element, _environment(target)) for element in probe.exec.command]
        return await command.probe(clients.exec_sync, expanded, target, timeout=timeout, spawn=spawn)
    network = probe.http_get or probe.tcp_socket
    if not target.address and not (network and network.host):
        return error("the pod has no IP address")
    if probe.http_get is not None:
        return await http_get.probe(clients.http, probe.http_get, target, timeout=timeout)
    if probe.tcp_socket is not None:
        return await tcp_socket.probe(probe.tcp_socket, target, timeout=timeout)
    if probe.grpc is not None:
        return await grpc_health.probe(probe.grpc, target, timeout=timeout)
    return error("the probe has no handler")


def _environment(target: Target) -> Mapping[str, str]:
    """The container's `env` with raw values; what comes from elsewhere (`valueFrom`) is empty (PH 6.2)."""
    return {entry.name: entry.value for entry in target.container.env}


def event_of(kind: str, attempt: Attempt, *, container: str) -> Event | None:
    """What a run is reported as, or None for a plain success. `kind`: startup, liveness or readiness (PH 10)."""
    title = kind.capitalize()
    match attempt.outcome:
        case Outcome.SUCCESS:
            return None
        case Outcome.WARNING:
            reason, message = "ProbeWarning", f"{title} probe warning: {attempt.output}"
        case Outcome.FAILURE:
            reason, message = "Unhealthy", f"{title} probe failed: {attempt.output}"
        case Outcome.ERROR:
            reason, message = (
                "Unhealthy",
                f"{title} probe errored and resulted in {attempt.state} state: {attempt.output}",
            )
    return Event(type="Warning", reason=reason, message=message, container=container)
