"""containerd's event stream, reduced to what concerns the life of containers and sandboxes (CD 7).

`state.RuntimeState` is the only listener. There is no replay: only what happens after the subscription is told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc.aio
import msgspec

from minikubelet.runtime.pb import events_pb2, events_pb2_grpc, task_events_pb2, types_pb2

_FILTER = 'namespace==k8s.io,topic~="/tasks/(start|exit|oom)"'


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a container or sandbox runs, since `at` (unix seconds)."""

    id: str
    at: float


class Exited(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a container or sandbox ended, at `at` (unix seconds)."""

    id: str
    exit_code: int
    at: float


class OutOfMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the container was killed for want of memory. Comes before the exit."""

    id: str


TaskEvent = Started | Exited | OutOfMemory


async def subscribe(channel: grpc.aio.Channel) -> AsyncIterator[TaskEvent]:
    """Every event from now on, or from the moment containerd is there; ends with AioRpcError when it goes away."""
    request = events_pb2.SubscribeRequest(filters=[_FILTER])
    async for envelope in events_pb2_grpc.EventsStub(channel).Subscribe(request, wait_for_ready=True):
        event = _decode(envelope)
        if event is not None:
            yield event


def _decode(envelope: types_pb2.Envelope) -> TaskEvent | None:
    match envelope.topic:
        case "/tasks/exit":
            exited = task_events_pb2.TaskExit.FromString(envelope.event.value)
            if exited.id != exited.container_id:
                return None  # a process that was exec'd in it
            at = exited.exited_at.ToNanoseconds() / 1e9
            return Exited(id=exited.container_id, exit_code=exited.exit_status, at=at)
        case "/tasks/oom":
            return OutOfMemory(id=task_events_pb2.TaskOOM.FromString(envelope.event.value).container_id)
        case "/tasks/start":
            started = task_events_pb2.TaskStart.FromString(envelope.event.value)
            return Started(id=started.container_id, at=envelope.timestamp.ToNanoseconds() / 1e9)
    return None
