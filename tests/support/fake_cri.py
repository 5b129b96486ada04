"""A containerd that is only pretended: real gRPC on a unix socket, all else in memory and under the test's thumb.

It can be slow, fail, lose a reply after the work was done, lag behind its own events, and be restarted. What it models
is what containerd.md tells of the real one; only the calls that tests need exist.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import grpc
import grpc.aio
import msgspec
from google.protobuf import any_pb2, descriptor, message, message_factory, timestamp_pb2

from minikubelet.runtime.pb import cri_pb2, events_pb2, task_events_pb2, types_pb2


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one call: it takes `delay` seconds, then fails with `code`, before or after its work is done."""

    code: grpc.StatusCode | None = None
    text: str = ""
    delay: float = 0.0
    after_work: bool = False


class RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class FakeCRI:
    """Use as an async context manager; `socket` is where it listens."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mk-fake-"))
        self.socket = self._folder / "sock"
        self.calls: list[tuple[str, Any]] = []
        #: Troubles for the next calls of a method, in order.
        self.troubles: dict[str, list[Trouble]] = defaultdict(list)
        self.sandboxes: dict[str, cri_pb2.PodSandboxStatus] = {}
        self.containers: dict[str, cri_pb2.ContainerStatus] = {}
        self.sandbox_of: dict[str, str] = {}
        #: Names taken by calls under way or undone ones: name -> id.
        self.reserved: dict[str, str] = {}
        #: What Status says.
        self.conditions = [cri_pb2.RuntimeCondition(type="RuntimeReady", status=True)]
        self.info: dict[str, str] = {}
        self._ids = itertools.count(1)
        self._server: grpc.aio.Server | None = None
        self._streams: set[asyncio.Queue[types_pb2.Envelope]] = set()
        self.subscribed = asyncio.Event()
        self._called = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        shutil.rmtree(self._folder)

    async def start(self) -> None:
        self._server = grpc.aio.server()
        runtime = cri_pb2.DESCRIPTOR.services_by_name["RuntimeService"]
        methods = {
            method.name: _unary(method, self._handler(method.name, work))
            for method in runtime.methods
            if (work := getattr(self, _snake_case(method.name), None))
        }
        subscribe = grpc.unary_stream_rpc_method_handler(
            self._subscribe,
            request_deserializer=events_pb2.SubscribeRequest.FromString,
            response_serializer=types_pb2.Envelope.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(runtime.full_name, methods),
                grpc.method_handlers_generic_handler("containerd.services.events.v1.Events", {"Subscribe": subscribe}),
            )
        )
        self._server.add_insecure_port(f"unix://{self.socket}")
        await self._server.start()

    async def stop(self) -> None:
        """As when the daemon goes away: calls and streams break, what it knows stays."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None
            self.subscribed.clear()

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    async def until_called(self, method: str, times: int) -> None:
        """Wait for the call that makes it so many in all."""
        async with asyncio.timeout(5), self._called:
            await self._called.wait_for(lambda: len(self.called(method)) >= times)

    # ---- what happens to containers --------------------------------------------------
    def exit(self, container_id: str, code: int = 0, *, event: bool = True, known: bool = True) -> None:
        """The container's process ends. `event`: subscribers hear of it. `known`: CRI shows it (else `catch_up`)."""
        at = time.time_ns()
        if event:
            stamp = timestamp_pb2.Timestamp()
            stamp.FromNanoseconds(at)
            payload = task_events_pb2.TaskExit(
                container_id=container_id, id=container_id, exit_status=code, exited_at=stamp
            )
            self.emit("/tasks/exit", payload)
        if known and container_id in self.containers:
            self.catch_up(container_id, code, at=at)

    def catch_up(self, container_id: str, code: int, *, reason: str = "", at: int = 0) -> None:
        status = self.containers[container_id]
        status.state = cri_pb2.CONTAINER_EXITED
        status.exit_code = code
        status.reason = reason or ("Error" if code else "Completed")
        status.finished_at = at or time.time_ns()

    def emit(self, topic: str, payload: message.Message) -> None:
        event = any_pb2.Any(type_url=payload.DESCRIPTOR.full_name, value=payload.SerializeToString())
        stamp = timestamp_pb2.Timestamp()
        stamp.FromNanoseconds(time.time_ns())
        for stream in self._streams:
            stream.put_nowait(types_pb2.Envelope(timestamp=stamp, namespace="k8s.io", topic=topic, event=event))

    def add_sandbox(self, config: cri_pb2.PodSandboxConfig, *, ready: bool = True) -> str:
        """As RunPodSandbox would, without a call."""
        sandbox_id = f"{next(self._ids):064x}"
        self.sandboxes[sandbox_id] = cri_pb2.PodSandboxStatus(
            id=sandbox_id,
            metadata=config.metadata,
            state=cri_pb2.SANDBOX_READY if ready else cri_pb2.SANDBOX_NOTREADY,
            created_at=time.time_ns(),
            network=cri_pb2.PodSandboxNetworkStatus(ip="10.0.0.2" if ready else ""),
            labels=config.labels,
            annotations=config.annotations,
        )
        return sandbox_id

    def add_container(self, sandbox_id: str, config: cri_pb2.ContainerConfig, *, running: bool = False) -> str:
        """As CreateContainer (and StartContainer) would, without a call."""
        container_id = f"{next(self._ids):064x}"
        self.sandbox_of[container_id] = sandbox_id
        self.containers[container_id] = cri_pb2.ContainerStatus(
            id=container_id,
            metadata=config.metadata,
            state=cri_pb2.CONTAINER_RUNNING if running else cri_pb2.CONTAINER_CREATED,
            created_at=time.time_ns(),
            started_at=time.time_ns() if running else 0,
            image=config.image,
            image_ref=config.image.image,
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=config.log_path,
        )
        return container_id

    # ---- CRI -------------------------------------------------------------------------
    def _version(self, _: cri_pb2.VersionRequest) -> cri_pb2.VersionResponse:
        return cri_pb2.VersionResponse(runtime_name="fake", runtime_version="1", runtime_api_version="v1")

    def _status(self, _: cri_pb2.StatusRequest) -> cri_pb2.StatusResponse:
        return cri_pb2.StatusResponse(status=cri_pb2.RuntimeStatus(conditions=self.conditions), info=self.info)

    def _run_pod_sandbox(self, request: cri_pb2.RunPodSandboxRequest) -> cri_pb2.RunPodSandboxResponse:
        meta = request.config.metadata
        self._reserve(
            f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}",
            {_sandbox_name(status): sandbox_id for sandbox_id, status in self.sandboxes.items()},
        )
        return cri_pb2.RunPodSandboxResponse(pod_sandbox_id=self.add_sandbox(request.config))

    def _stop_pod_sandbox(self, request: cri_pb2.StopPodSandboxRequest) -> cri_pb2.StopPodSandboxResponse:
        status = self.sandboxes.get(request.pod_sandbox_id)
        if status is None:
            raise RefusedError(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        status.state = cri_pb2.SANDBOX_NOTREADY
        return cri_pb2.StopPodSandboxResponse()

    def _remove_pod_sandbox(self, request: cri_pb2.RemovePodSandboxRequest) -> cri_pb2.RemovePodSandboxResponse:
        self.sandboxes.pop(request.pod_sandbox_id, None)
        for container_id in [c for c, s in self.sandbox_of.items() if s == request.pod_sandbox_id]:
            self.containers.pop(container_id, None)
        return cri_pb2.RemovePodSandboxResponse()

    def _pod_sandbox_status(self, request: cri_pb2.PodSandboxStatusRequest) -> cri_pb2.PodSandboxStatusResponse:
        status = self.sandboxes.get(request.pod_sandbox_id)
        if status is None:
            raise RefusedError(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        return cri_pb2.PodSandboxStatusResponse(status=status)

    def _list_pod_sandbox(self, request: cri_pb2.ListPodSandboxRequest) -> cri_pb2.ListPodSandboxResponse:
        wanted = request.filter.label_selector
        return cri_pb2.ListPodSandboxResponse(
            items=[
                cri_pb2.PodSandbox(
                    id=s.id, metadata=s.metadata, state=s.state, labels=s.labels, annotations=s.annotations
                )
                for s in self.sandboxes.values()
                if all(s.labels.get(key) == value for key, value in wanted.items())
            ]
        )

    def _create_container(self, request: cri_pb2.CreateContainerRequest) -> cri_pb2.CreateContainerResponse:
        meta = request.config.metadata
        self._reserve(f"{meta.name}_{meta.attempt}", {_name(s): i for i, s in self.containers.items()})
        return cri_pb2.CreateContainerResponse(container_id=self.add_container(request.pod_sandbox_id, request.config))

    def _start_container(self, request: cri_pb2.StartContainerRequest) -> cri_pb2.StartContainerResponse:
        status = self._container(request.container_id)
        status.state, status.started_at = cri_pb2.CONTAINER_RUNNING, time.time_ns()
        return cri_pb2.StartContainerResponse()

    def _remove_container(self, request: cri_pb2.RemoveContainerRequest) -> cri_pb2.RemoveContainerResponse:
        self.containers.pop(request.container_id, None)
        return cri_pb2.RemoveContainerResponse()

    def _container_status(self, request: cri_pb2.ContainerStatusRequest) -> cri_pb2.ContainerStatusResponse:
        return cri_pb2.ContainerStatusResponse(status=self._container(request.container_id))

    def _list_containers(self, request: cri_pb2.ListContainersRequest) -> cri_pb2.ListContainersResponse:
        wanted = request.filter.label_selector
        return cri_pb2.ListContainersResponse(
            containers=[
                cri_pb2.Container(
                    id=c.id,
                    pod_sandbox_id=self.sandbox_of[c.id],
                    metadata=c.metadata,
                    state=c.state,
                    labels=c.labels,
                    annotations=c.annotations,
                )
                for c in self.containers.values()
                if all(c.labels.get(key) == value for key, value in wanted.items())
            ]
        )

    def _container(self, container_id: str) -> cri_pb2.ContainerStatus:
        if container_id not in self.containers:
            raise RefusedError(grpc.StatusCode.NOT_FOUND, "no such container")
        return self.containers[container_id]

    def _reserve(self, name: str, taken: dict[str, str]) -> None:
        holder = taken.get(name) or self.reserved.get(name)
        if holder:
            raise RefusedError(grpc.StatusCode.UNKNOWN, f'failed to reserve name "{name}": is reserved for "{holder}"')

    # ---- gRPC ------------------------------------------------------------------------
    def _handler(self, name: str, work: Callable[[Any], message.Message]) -> Callable[..., Awaitable[message.Message]]:
        async def handle(request: message.Message, context: Any) -> message.Message:
            self.calls.append((name, request))
            async with self._called:
                self._called.notify_all()
            trouble = self.troubles[name].pop(0) if self.troubles[name] else Trouble()
            await asyncio.sleep(trouble.delay)
            if trouble.code is not None and not trouble.after_work:
                await context.abort(trouble.code, trouble.text)
            try:
                answer = work(request)
            except RefusedError as refused:
                await context.abort(refused.code, refused.text)
                raise
            if trouble.code is not None:
                await context.abort(trouble.code, trouble.text)
            return answer

        return handle

    async def _subscribe(
        self, _request: events_pb2.SubscribeRequest, _context: Any
    ) -> AsyncIterator[types_pb2.Envelope]:
        stream: asyncio.Queue[types_pb2.Envelope] = asyncio.Queue()
        self._streams.add(stream)
        self.subscribed.set()
        with contextlib.ExitStack() as stack:
            stack.callback(self._streams.discard, stream)
            while True:
                yield await stream.get()


def _unary(method: descriptor.MethodDescriptor, handler: Callable[..., Awaitable[message.Message]]) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        handler,
        request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
        response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
    )


def _snake_case(name: str) -> str:
    return re.sub(r"([A-Z])", r"_\1", name).lower()


def _sandbox_name(status: cri_pb2.PodSandboxStatus) -> str:
    meta = status.metadata
    return f"{meta.name}_{meta.namespace}_{meta.uid}_{meta.attempt}"


def _name(status: cri_pb2.ContainerStatus) -> str:
    return f"{status.metadata.name}_{status.metadata.attempt}"
