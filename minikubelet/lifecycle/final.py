"""LC 11.6: what the statuses become when a pod has been stopped for good."""

from __future__ import annotations

import msgspec

from minikubelet.api.status import ContainerState, ContainerStatus, StateTerminated

_UNLOCATED = StateTerminated(
    exit_code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)


class Statuses(msgspec.Struct, frozen=True):
    """The container statuses of a pod while its status is made up, both in spec order."""

    inits: tuple[ContainerStatus, ...]
    mains: tuple[ContainerStatus, ...]


def final_states(found: Statuses) -> Statuses:
    """Containers that ran but have no end to show get one; those never reached stay waiting (LC 11.6.2, 11.6.3)."""
    reached = max((i for i, status in enumerate(found.inits) if _ever_ran(status)), default=0)
    inits = tuple(_ended(status) if i <= reached else status for i, status in enumerate(found.inits))
    return Statuses(inits, found.mains if inits else tuple(_ended(status) for status in found.mains))


def _ever_ran(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.last_state != ContainerState() or status.restart_count > 0


def _ended(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(status, state=ContainerState(terminated=_UNLOCATED), ready=False, started=False)
