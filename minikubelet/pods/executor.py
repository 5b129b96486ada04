"""Carries out one action of a decision, and says what is to be remembered of it.

Called by `worker.py` only, in a task of its own for each action. A result is a `Note`: a pure change of memory, applied
by the worker when the action ends. What the runtime did is also noted in `RuntimeState`, so the worker's next decision
sees it without waiting for an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from minikubelet.api.pod import Container, LifecycleHandler, Pod
from minikubelet.lifecycle import actions as do
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import Memory, StartError
from minikubelet.lifecycle.records import Observed, RecordState
from minikubelet.pods.hooks import HookError, run_hook
from minikubelet.pods.images import ImageError
from minikubelet.pods.services import Services
from minikubelet.pods.tasks import Handle, uncut
from minikubelet.pods.volumes import VolumeError
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError

log = structlog.get_logger(__name__)

Note = Callable[[Memory], Memory]

#: Seconds until a start that failed for its configuration or in the runtime is tried again (LC 0: retry after a failed sync).
_START_RETRY = 10.0
#: Seconds between tries to make a sandbox, doubling.
_SANDBOX_RETRY_FIRST, _SANDBOX_RETRY_MAX = 1.0, 10.0
#: Seconds between tries to set up volumes, doubling (VO-2).
_VOLUME_RETRY_FIRST, _VOLUME_RETRY_MAX = 0.5, 122.0
#: What the runtime says of a start that was cut off because its client went away (CD 5).
_CUT_OFF = ("context canceled", "context deadline exceeded", "signal: killed")


def half_made(observed: Observed) -> list[str]:
    """Ids of what a start that was cut short has left: these never ran, so they must count neither as starts nor as exits."""
    raise NotImplementedError
