"""What handlers need from outside, made once by the daemon and shared by every probe and hook."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Awaitable, Callable

from minikubelet.pods.probes.handlers.command import ExecSync
from minikubelet.pods.probes.handlers.http_client import HttpClient


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clients:
    exec_sync: ExecSync
    http: HttpClient
    #: Whether the runtime is well enough to answer at once.
    runtime_answers: Callable[[], Awaitable[bool]]
    #: Runs by (probe type, result), for the metric prober_probe_total (PH 10); errors are not counted.
    totals: collections.Counter[tuple[str, str]] = dataclasses.field(default_factory=collections.Counter)
