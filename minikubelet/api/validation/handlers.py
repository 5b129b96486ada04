"""Checks of probes and lifecycle hooks (PH 2.4). Called by `containers`."""

from __future__ import annotations

from minikubelet.api.container import Container
from minikubelet.api.handlers import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from minikubelet.api.problems import Problems, forbidden, invalid, required, unsupported
from minikubelet.api.validation import names

_Action = ExecAction | HTTPGetAction | TCPSocketAction | GRPCAction | SleepAction

_NOT_ON_INIT = "may not be set for init containers without restartPolicy=Always"


def validate_handlers(container: Container, path: str, *, grace: int) -> Problems:
    """All hooks and probes of a regular container or a sidecar. `grace` is the pod's, in seconds."""
    if container.lifecycle is not None:
        yield from _lifecycle(container.lifecycle, f"{path}.lifecycle", grace=grace)
    if container.liveness_probe is not None:
        yield from _probe(container.liveness_probe, f"{path}.livenessProbe", grace=grace)
        yield from _one_success(container.liveness_probe, f"{path}.livenessProbe")
    if container.readiness_probe is not None:
        yield from _probe(container.readiness_probe, f"{path}.readinessProbe", grace=grace)
        own_grace = container.readiness_probe.termination_grace_period_seconds
        if own_grace is not None:
            place = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            yield invalid(place, own_grace, "must not be set for readinessProbes")
    if container.startup_probe is not None:
        yield from _probe(container.startup_probe, f"{path}.startupProbe", grace=grace)
        yield from _one_success(container.startup_probe, f"{path}.startupProbe")


def refuse_handlers(container: Container, path: str) -> Problems:
    """An init container that runs to its end has neither (VI-2)."""
    if container.lifecycle is not None:
        yield forbidden(f"{path}.lifecycle", _NOT_ON_INIT)
    if container.liveness_probe is not None:
        yield forbidden(f"{path}.livenessProbe", _NOT_ON_INIT)
    if container.readiness_probe is not None:
        yield forbidden(f"{path}.readinessProbe", _NOT_ON_INIT)
    if container.startup_probe is not None:
        yield forbidden(f"{path}.startupProbe", _NOT_ON_INIT)


def _lifecycle(lifecycle: Lifecycle, path: str, *, grace: int) -> Problems:
    if lifecycle.post_start is not None:
        yield from _one_of(_hook_actions(lifecycle.post_start), f"{path}.postStart", grace=grace)
    if lifecycle.pre_stop is not None:
        yield from _one_of(_hook_actions(lifecycle.pre_stop), f"{path}.preStop", grace=grace)


def _hook_actions(hook: LifecycleHandler) -> dict[str, _Action | None]:
    return {"exec": hook.exec, "httpGet": hook.http_get, "tcpSocket": hook.tcp_socket, "sleep": hook.sleep}


def _probe(probe: Probe, path: str, *, grace: int) -> Problems:
    actions: dict[str, _Action | None] = {
        "exec": probe.exec,
        "httpGet": probe.http_get,
        "tcpSocket": probe.tcp_socket,
        "grpc": probe.grpc,
    }
    yield from _one_of(actions, path, grace=grace)
    numbers = {
        "initialDelaySeconds": probe.initial_delay_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "periodSeconds": probe.period_seconds,
        "successThreshold": probe.success_threshold,
        "failureThreshold": probe.failure_threshold,
    }
    for name, number in numbers.items():
        if number < 0:
            yield invalid(f"{path}.{name}", number, "must be greater than or equal to 0")
    own_grace = probe.termination_grace_period_seconds
    if own_grace is not None and own_grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")


def _one_success(probe: Probe, path: str) -> Problems:
    if probe.success_threshold != 1:
        yield invalid(f"{path}.successThreshold", probe.success_threshold, "must be 1")


def _one_of(actions: dict[str, _Action | None], path: str, *, grace: int) -> Problems:
    """Exactly one handler: the first one is checked, every later one is one too many."""
    given = {name: action for name, action in actions.items() if action is not None}
    if not given:
        yield required(path, "must specify a handler type")
        return
    (name, action), *more = given.items()
    yield from _action(action, f"{path}.{name}", grace=grace)
    for surplus, _ in more:
        yield forbidden(f"{path}.{surplus}", "may not specify more than 1 handler type")


def _action(action: _Action, path: str, *, grace: int) -> Problems:
    match action:
        case ExecAction():
            if not action.command:
                yield required(f"{path}.command")
        case HTTPGetAction():
            yield from _port(action.port, path)
            if action.scheme not in ("HTTP", "HTTPS"):
                yield unsupported(f"{path}.scheme", action.scheme, ("HTTP", "HTTPS"))
            for index, header in enumerate(action.http_headers):
                for detail in names.header_name(header.name):
                    place = f"{path}.httpHeaders[{index}].name"
                    yield invalid(f"{path}.httpHeaders", header.name, detail, place=place)
        case TCPSocketAction() | GRPCAction():
            yield from _port(action.port, path)
        case SleepAction():
            if not 0 <= action.seconds <= grace:
                detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(path, action.seconds, detail)


def _port(port: int | str, path: str) -> Problems:
    for detail in names.port_number(port) if isinstance(port, int) else names.port_name(port):
        yield invalid(f"{path}.port", port, detail)
