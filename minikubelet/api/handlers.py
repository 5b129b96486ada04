"""Probes and lifecycle hooks (PH 2): what is asked of a container, and how."""

from __future__ import annotations

from typing import Annotated

from minikubelet.api.base import Int32, Int64, Object, shown
from minikubelet.api.support import refused

#: containerd up to 2.1 neither knows the field of the request nor says whether it would.
_NO_STOP_SIGNAL = refused(
    "not supported: the runtime's CRI has no stop signal; set STOPSIGNAL in the image, or send the signal in a preStop "
    "hook"
)


class ExecAction(Object):
    command: tuple[str, ...] = ()


class HTTPHeader(Object):
    name: str
    value: str = ""


class HTTPGetAction(Object):
    port: int | str
    path: str = shown("/")
    host: str = ""
    scheme: str = shown("HTTP")
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Object):
    port: int | str
    host: str = ""


class GRPCAction(Object):
    port: Int32
    service: str = ""


class SleepAction(Object, omit_defaults=False):
    seconds: Int64


class Probe(Object):
    """Times in seconds; defaults are the kubelet's (PH 2.1)."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: Int32 = 0
    timeout_seconds: Int32 = shown(1)
    period_seconds: Int32 = shown(10)
    success_threshold: Int32 = shown(1)
    failure_threshold: Int32 = shown(3)
    termination_grace_period_seconds: Int64 | None = None


class LifecycleHandler(Object):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Object):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: Annotated[str | None, _NO_STOP_SIGNAL] = None
