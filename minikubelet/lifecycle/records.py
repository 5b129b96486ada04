"""What the pure core sees of the runtime: plain records, no gRPC types.

`runtime/` fills them, `lifecycle/` reads them, `pods/` carries them from one to the other.
All times are unix seconds as float; 0 means "not yet".
"""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec


class RecordState(enum.Enum):
    CREATED = "Created"
    RUNNING = "Running"
    EXITED = "Exited"
    UNKNOWN = "Unknown"


class ObservedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """One CRI container of the pod (a "record" in lifecycle.md section 0)."""

    id: str
    name: str
    sandbox_id: str
    state: RecordState
    created_at: float
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    #: The runtime's message and the termination message, joined (TM-3).
    message: str = ""
    #: The image as the pod spec names it, and the runtime's reference to what it resolved to.
    image: str = ""
    image_id: str = ""
    #: Annotation io.kubernetes.container.hash (CC-8: name and image).
    hash: str = ""
    restart_count: int = 0


class ObservedSandbox(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    attempt: int
    ready: bool
    created_at: float
    host_network: bool = False
    ips: tuple[str, ...] = ()


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the runtime has of one pod. Both lists are newest first."""

    sandboxes: tuple[ObservedSandbox, ...] = ()
    containers: tuple[ObservedContainer, ...] = ()

    def newest(self, name: str) -> ObservedContainer | None:
        """The record of a container name: its newest one, from any sandbox."""
        return next((c for c in self.containers if c.name == name), None)

    def ready_sandbox(self) -> ObservedSandbox | None:
        """The newest sandbox if it is READY."""
        return self.sandboxes[0] if self.sandboxes and self.sandboxes[0].ready else None


def without(observed: Observed, containers: Collection[ObservedContainer]) -> Observed:
    """As if these containers were not there."""
    return msgspec.structs.replace(observed, containers=tuple(c for c in observed.containers if c not in containers))
