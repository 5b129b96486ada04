"""A containerd of our own for the real tests of the runtime room, and short ways to pods in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import Objects
from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.runtime import adopt
from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.host import node_context
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.mapping import (
    ContainerInputs,
    ImageFacts,
    MountSources,
    NodeContext,
    container_config,
    container_environment,
    sandbox_config,
)
from minikubelet.runtime.state import RuntimeState
from tests.support.containerd import PrivateContainerd
from tests.support.images import BUSYBOX_NAME


def _why_not() -> str | None:
    if os.geteuid():
        return "needs root"
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD") or "containerd"
    return None if shutil.which(binary) else "containerd is not installed"


@pytest.fixture(scope="session")
def shared_containerd() -> Iterator[PrivateContainerd]:
    """One daemon with the test images, for tests that neither stop it nor change its settings."""
    if reason := _why_not():
        pytest.skip(reason)
    daemon = PrivateContainerd()
    try:
        daemon.start()
        daemon.load_images()
        yield daemon
    finally:
        daemon.destroy()


@pytest.fixture
def own_containerd() -> Iterator[PrivateContainerd]:
    """A daemon for one test, which may do with it what it likes; it runs, and has the test images."""
    if reason := _why_not():
        pytest.skip(reason)
    daemon = PrivateContainerd()
    try:
        daemon.start()
        daemon.load_images()
        yield daemon
    finally:
        daemon.destroy()


class Bench:
    """One daemon's runtime room at work on a real containerd."""

    def __init__(self, daemon: PrivateContainerd, channel: grpc.aio.Channel) -> None:
        self.daemon = daemon
        self.channel = channel
        self.cri = CRIClient(channel)
        self.images = ImageService(channel)
        self.root = daemon.base / f"root-{secrets.token_hex(4)}"
        self.root.mkdir()
        self.node: NodeContext = node_context(
            node_name="node",
            root_dir=self.root,
            log_dir=self.root / "logs",
            systemd_cgroups=False,
            cgroup_root=daemon.cgroup_root,
        )
        self.state = RuntimeState(channel, owner=str(self.root))

    def pod(self, *containers: Container, uid: str = "", **spec: Any) -> Pod:
        uid = uid or secrets.token_hex(8)
        spec.setdefault("dnsPolicy", "Default")
        fields = msgspec.structs.replace(msgspec.convert(spec, PodSpec), containers=containers)
        return Pod(metadata=ObjectMeta(name="pod", namespace="default", uid=uid), spec=fields)

    async def sandbox(self, pod: Pod, *, attempt: int = 0) -> str:
        config, _ = sandbox_config(pod, self.node, attempt=attempt, resolv_conf="nameserver 10.9.8.7\nsearch lan\n")
        sandbox_id = await adopt.run_sandbox(self.cri, config, removed=self.state.note_removed)
        self.state.note_sandbox((await self.cri.pod_sandbox_status(sandbox_id)).status)
        return sandbox_id

    async def create(
        self, pod: Pod, sandbox_id: str, *, container: int = 0, restart_count: int = 0, **sources: Any
    ) -> str:
        """Of the pod's containers the one with that index. `sources`: of its mounts."""
        of = pod.spec.containers[container]
        image = await self.images.status(of.image)
        assert image is not None
        message = self.root / f"message-{secrets.token_hex(4)}"
        message.touch()
        mounts = MountSources(**{"termination_log": str(message), **sources})
        given = ContainerInputs(
            restart_count=restart_count,
            image=ImageFacts.of(image),
            environment=container_environment(pod, of, self.node, objects=Objects()),
            mounts=mounts,
        )
        config = container_config(pod, of, self.node, given)
        sandbox, _ = sandbox_config(pod, self.node, attempt=0, resolv_conf="")
        container_id = await adopt.create_container(
            self.cri, sandbox_id, config, sandbox_config=sandbox, removed=self.state.note_removed
        )
        directory = sandbox.log_directory
        self.state.note_created(container_id, sandbox_id=sandbox_id, config=config, log_directory=directory)
        return container_id

    async def start(self, container_id: str) -> None:
        await self.cri.start_container(container_id)
        self.state.note_started(container_id)

    async def run(self, pod: Pod, sandbox_id: str, **options: Any) -> str:
        container_id = await self.create(pod, sandbox_id, **options)
        await self.start(container_id)
        return container_id

    def log(self, pod: Pod, container: str = "main", restart_count: int = 0) -> Path:
        meta = pod.metadata
        return self.node.log_dir / f"{meta.namespace}_{meta.name}_{meta.uid}" / container / f"{restart_count}.log"


async def eventually(question: Callable[[], Awaitable[bool]], *, seconds: float = 10) -> None:
    """Ask again and again, for what tells nobody when it changes."""
    async with asyncio.timeout(seconds):
        while not await question():  # noqa: ASYNC110
            await asyncio.sleep(0.03)


def sh(script: str, *, name: str = "main", **fields: Any) -> Container:
    """A busybox container that runs a shell script."""
    given = {"name": name, "image": BUSYBOX_NAME, "command": ["sh", "-c", script], **fields}
    return msgspec.convert(given, Container)


@contextlib.asynccontextmanager
async def working(daemon: PrivateContainerd) -> AsyncIterator[Bench]:
    async with connect(daemon.socket) as channel:
        bench = Bench(daemon, channel)
        following = asyncio.create_task(bench.state.run(), name="follow containerd")
        try:
            await bench.state.wait_connected()
            yield bench
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


@pytest.fixture
async def bench(shared_containerd: PrivateContainerd) -> AsyncIterator[Bench]:
    async with working(shared_containerd) as bench:
        yield bench


@pytest.fixture
async def own_bench(own_containerd: PrivateContainerd) -> AsyncIterator[Bench]:
    async with working(own_containerd) as bench:
        yield bench
