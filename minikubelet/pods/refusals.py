"""What is told when the runtime goes on refusing to take something down. Called by `worker.py`."""

from __future__ import annotations

from collections.abc import Collection

from minikubelet.lifecycle.actions import Action, Event, RemoveContainer, RemoveSandbox, StopContainer, StopSandbox


def refusal_event(action: Action, error: Exception, *, half_made: Collection[str]) -> Event | None:
    """`half_made`: ids of containers whose start was cut short. None: what makes things tells of it itself."""
    match action:
        case RemoveContainer() if action.container_id in half_made:
            message = f"Error: what a start that was cut short has left cannot be removed: {error}"
            return Event(type="Warning", reason="Failed", message=message, container=action.name)
        case StopContainer() | RemoveContainer() | StopSandbox() | RemoveSandbox():
            return Event(type="Warning", reason="FailedKillPod", message=f"error killing pod: {error}")
        case _:
            return None
