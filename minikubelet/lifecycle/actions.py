"""What `decide` can ask of the shell. Plain data; `pods/worker.py` is the one that carries them out.

Each action has a `key`. `decide` puts the key into `memory.in_flight` when it hands the action out; the worker calls
`notes.action_finished(memory, key)` when it has ended, however it ended. So no action is ever handed out twice.
"""

from __future__ import annotations

import msgspec

from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.memory import Memory


class CreateSandbox(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int

    @property
    def key(self) -> str:
        return "sandbox"


class StartContainer(msgspec.Struct, frozen=True, kw_only=True):
    """Pull as the policy says, create in the given sandbox, start. The postStart hook is its own action."""

    name: str
    sandbox_id: str
    restart_count: int

    @property
    def key(self) -> str:
        return f"start:{self.name}"


class RunPostStart(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    container_id: str

    @property
    def key(self) -> str:
        return f"postStart:{self.container_id}"


class RunPreStop(msgspec.Struct, frozen=True, kw_only=True):
    """The hook is never cancelled by the stop plan; it dies with its container."""

    name: str
    container_id: str

    @property
    def key(self) -> str:
        return f"preStop:{self.container_id}"


class StopContainer(msgspec.Struct, frozen=True, kw_only=True):
    """Stop signal now, SIGKILL after `timeout` seconds. Handed out again under another key if the grace shrinks."""

    name: str
    container_id: str
    timeout: int

    @property
    def key(self) -> str:
        return f"stop:{self.container_id}:{self.timeout}"


class RemoveContainer(msgspec.Struct, frozen=True, kw_only=True):
    """`logs`: its log files go too."""

    name: str
    container_id: str
    logs: bool

    @property
    def key(self) -> str:
        return f"remove:{self.container_id}"


class StopSandbox(msgspec.Struct, frozen=True, kw_only=True):
    sandbox_id: str

    @property
    def key(self) -> str:
        return f"stop-sandbox:{self.sandbox_id}"


class RemoveSandbox(msgspec.Struct, frozen=True, kw_only=True):
    sandbox_id: str

    @property
    def key(self) -> str:
        return f"remove-sandbox:{self.sandbox_id}"


Action = (
    CreateSandbox
    | StartContainer
    | RunPostStart
    | RunPreStop
    | StopContainer
    | RemoveContainer
    | StopSandbox
    | RemoveSandbox
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes Event of the pod, or of one container of it (lifecycle.md 11.7, probes-and-hooks 10)."""

    type: str  # Normal or Warning
    reason: str
    message: str
    container: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    actions: tuple[Action, ...]
    events: tuple[Event, ...]
    status: PodStatus
    memory: Memory
    #: When to decide again if nothing happens before; None: only on an event.
    wake_at: float | None
    #: The pod is at its end: all containers have stopped, the phase is final or the manifest is gone, and nothing is in
    #: flight. Volumes and the cgroup can go. (With `stopping.cause` REMOVED also every record and the pod itself.)
    finished: bool
