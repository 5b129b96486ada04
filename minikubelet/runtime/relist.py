"""A look through everything that the runtime has of ours, or through one pod: the net under the events.

`state.RuntimeState` looks at start, after each reconnect and once a minute, and enters what is found. Only what differs
from the book is asked for one by one: a list tells of an object's state, but not how it came to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from minikubelet.runtime import records
from minikubelet.runtime.book import Book
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import NotFoundError
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.pb import cri_pb2

#: Status calls at a time.
_PARALLEL = 16


class EnterContainer(Protocol):
    def __call__(self, status: cri_pb2.ContainerStatus, *, sandbox_id: str) -> Awaitable[None]: ...


class Relist:
    def __init__(
        self,
        cri: CRIClient,
        book: Book,
        *,
        owner: str,
        gone: Callable[[str], None],
        sandbox: Callable[[cri_pb2.PodSandboxStatus], None],
        container: EnterContainer,
    ) -> None:
        """`owner`: the mark of what is ours (D-7). The others enter what is found: `gone(id)`, `sandbox(status)`,
        `container(status, sandbox_id=...)`.
        """
        self._cri = cri
        self._book = book
        self._owner = owner
        self._gone = gone
        self._enter_sandbox = sandbox
        self._enter_container = container
        self._under_way = 0

    async def look(self, uid: str | None) -> None:
        """Through everything, or through one pod. Raises ContainerRuntimeError."""
        self._under_way += 1
        try:
            await self._look(uid)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._book.forget_drops()

    async def _look(self, uid: str | None) -> None:
        then = self._book.now
        selector = {labels.POD_UID: uid} if uid is not None else None
        sandboxes = [s for s in await self._cri.list_pod_sandboxes(selector) if self._is_ours(s)]
        containers = [c for c in await self._cri.list_containers(selector) if self._is_ours(c)]
        listed = [*(s.id for s in sandboxes), *(c.id for c in containers)]
        for object_id in self._book.missing(listed, then=then, uid=uid):
            self._gone(object_id)
        parallel = asyncio.Semaphore(_PARALLEL)
        try:
            async with asyncio.TaskGroup() as tasks:
                for sandbox in sandboxes:
                    tasks.create_task(self._at_sandbox(sandbox, then, parallel), name=f"look at {sandbox.id}")
                for container in containers:
                    tasks.create_task(self._at_container(container, then, parallel), name=f"look at {container.id}")
        except ExceptionGroup as group:
            raise first_error(group) from group

    def _is_ours(self, listed: cri_pb2.PodSandbox | cri_pb2.Container) -> bool:
        return listed.annotations.get(labels.OWNER) == self._owner and labels.POD_UID in listed.labels

    async def _at_sandbox(self, sandbox: cri_pb2.PodSandbox, then: int, parallel: asyncio.Semaphore) -> None:
        """Ask for what the list leaves out, unless nothing is new."""
        known = self._book.sandbox(sandbox.id)
        if known is not None and known.record.ready == (sandbox.state == cri_pb2.SANDBOX_READY):
            return
        async with parallel:
            try:
                status = (await self._cri.pod_sandbox_status(sandbox.id)).status
            except NotFoundError:
                return
        if not self._book.dropped_since(sandbox.id, then):
            self._enter_sandbox(status)

    async def _at_container(self, container: cri_pb2.Container, then: int, parallel: asyncio.Semaphore) -> None:
        known = self._book.container(container.id)
        if known is not None and known.record.state is records.state_of(container.state):
            return
        async with parallel:
            try:
                status = await self._cri.container_status(container.id)
            except NotFoundError:
                return
        if not self._book.dropped_since(container.id, then):
            await self._enter_container(status, sandbox_id=container.pod_sandbox_id)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error within a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
