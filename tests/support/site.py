"""A node for tests that look at it from outside: pods that keep a journal, and the runtime behind the daemon's back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest

from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.pb import cri_pb2
from tests.support.images import BUSYBOX, PAUSE, Image
from tests.support.node import PrivateNode


class Site:
    """A node, and the runtime as it is behind the daemon's back."""

    def __init__(self, node: PrivateNode, channel: grpc.aio.Channel) -> None:
        self.node, self.channel, self.cri = node, channel, CRIClient(channel)
        self.journal = node.base / "journal"
        self.journal.mkdir()

    def drop(
        self, name: str = "pod", *, on_term: str = "exit 0", crash: bool = False, finish: bool = False, **spec: object
    ) -> None:
        """A pod of a sidecar and a main; each start and SIGTERM of theirs is a line in the journal.

        `on_term`: what the main does on SIGTERM. `crash` and `finish`: it exits by itself, with 1 or 0.
        """
        mounts = [{"name": "journal", "mountPath": "/journal"}]
        forever = "while :; do sleep 1000 & wait; done"

        def container(who: str, on_term: str, life: str) -> dict[str, object]:
            trap = f"echo {who} term >>/journal/{name}; {on_term}"
            script = f"trap '{trap}' TERM; echo {who} started >>/journal/{name}; {life}"
            return {"name": who, "image": "busybox:1.36", "command": ["sh", "-c", script], "volumeMounts": mounts}

        body = {
            "initContainers": [{**container("side", "exit 0", forever), "restartPolicy": "Always"}],
            "containers": [container("main", on_term, "exit 1" if crash else "exit 0" if finish else forever)],
            "volumes": [{"name": "journal", "hostPath": {"path": str(self.journal)}}],
            **spec,
        }
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}
        staged = self.node.base / "staged"
        staged.write_bytes(msgspec.json.encode(manifest))
        staged.rename(self.node.manifests / f"{name}.json")

    def remove(self, name: str = "pod") -> None:
        (self.node.manifests / f"{name}.json").unlink()

    def lines(self, name: str = "pod") -> list[str]:
        file = self.journal / name
        return file.read_text().splitlines() if file.exists() else []

    async def pods(self) -> list[Any]:
        return list((await asyncio.to_thread(self.node.get, "/pods"))["items"])

    async def until(self, what: str, test: Callable[[], Awaitable[object]], *, within: float = 60) -> None:
        try:
            async with asyncio.timeout(within):
                while not await test():  # noqa: ASYNC110 - looks from outside
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log = self.node.log.read_text()[-3000:]
            pytest.fail(f"not within {within} s: {what}; pods: {await self.pods()}; log: {log}")

    async def running(self) -> None:
        async def ready() -> bool:
            pods = await self.pods()
            states = [s["state"] for p in pods for s in p["status"].get("containerStatuses", [])]
            return bool(states) and all("running" in state for state in states)

        await self.until("the pod runs", ready)

    async def gone(self, *, within: float = 60) -> None:
        async def none() -> bool:
            return not await self.pods()

        await self.until("the pod is gone", none, within=within)

    async def is_whole(self) -> None:
        """One sandbox, one container of each name; nobody restarted."""
        sandboxes = await self.cri.list_pod_sandboxes()
        assert [s.state for s in sandboxes] == [cri_pb2.SANDBOX_READY]
        containers = await self.cri.list_containers()
        assert sorted((c.metadata.name, c.metadata.attempt, c.state) for c in containers) == [
            ("main", 0, cri_pb2.CONTAINER_RUNNING),
            ("side", 0, cri_pb2.CONTAINER_RUNNING),
        ]
        (pod,) = await self.pods()
        statuses = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
        assert [s["restartCount"] for s in statuses] == [0, 0]

    async def is_empty(self) -> None:
        assert not await self.cri.list_pod_sandboxes()
        assert not await self.cri.list_containers()


@contextlib.asynccontextmanager
async def private_site(
    *, endpoint: Path | None = None, start: bool = True, images: Sequence[Image] = (BUSYBOX, PAUSE)
) -> AsyncIterator[Site]:
    """With `start`, the daemon runs. In the end nothing of it may be left on this machine."""
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    node = await asyncio.to_thread(PrivateNode, containerd=binary, endpoint=endpoint)
    try:
        await asyncio.to_thread(node.create, images=images)
        async with connect(node.containerd.socket) as channel:
            if start:
                await asyncio.to_thread(node.start)
            yield Site(node, channel)
            await asyncio.to_thread(node.stop, signal.SIGKILL)
    finally:
        await asyncio.to_thread(node.destroy)
    assert node.leftovers() == []
