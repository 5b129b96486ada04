"""What a call that was cut short leaves behind, for each call: afterwards one sandbox, one container, the right count.

The daemon talks to containerd through a proxy, which lets a test end the daemon, or lose a reply, in the middle of
a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.pb import cri_pb2
from tests.support.grpc_proxy import GRPCProxy, Hook, LostReply
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

Go = Callable[[], Awaitable[None]]


class Site:
    """A node behind a proxy, and the runtime as it is behind the daemon's back."""

    def __init__(self, node: PrivateNode, proxy: GRPCProxy, cri: CRIClient) -> None:
        self.node, self.proxy, self.cri = node, proxy, cri
        self.journal = node.base / "journal"
        self.journal.mkdir()

    def drop(self, name: str = "pod", **spec: object) -> None:
        """A pod of a sidecar and a main; each start and stop of theirs is a line in the journal."""
        mounts = [{"name": "journal", "mountPath": "/journal"}]
        loop = "while :; do sleep 1000 & wait; done"

        def container(who: str, on_term: str = "exit 0") -> dict[str, object]:
            trap = f"echo {who} term >>/journal/{name}; {on_term}"
            script = f"echo {who} started >>/journal/{name}; trap '{trap}' TERM; {loop}"
            return {"name": who, "image": "busybox:1.36", "command": ["sh", "-c", script], "volumeMounts": mounts}

        body = {
            "initContainers": [{**container("side"), "restartPolicy": "Always"}],
            "containers": [container("main", on_term=str(spec.pop("on_term", "exit 0")))],
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


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    node = await asyncio.to_thread(PrivateNode, containerd=binary, endpoint=Path("proxy.sock"))
    try:
        await asyncio.to_thread(node.create)
        async with (
            GRPCProxy(upstream=node.containerd.socket, listen=node.endpoint).serve() as proxy,
            connect(node.containerd.socket) as channel,
        ):
            await asyncio.to_thread(node.start)
            yield Site(node, proxy, CRIClient(channel))
            await asyncio.to_thread(node.stop, signal.SIGKILL)
    finally:
        await asyncio.to_thread(node.destroy)
    assert node.leftovers() == []


def once(method: str, act: Callable[[Go], Awaitable[None]]) -> tuple[Hook, asyncio.Event]:
    """A hook that acts at the first call of a method, and the event that it has done so."""
    done = asyncio.Event()
    calls = 0

    async def hook(name: str, proceed: Go) -> None:
        nonlocal calls
        calls += name == method
        if name != method or calls > 1:
            await proceed()
            return
        try:
            await act(proceed)
        finally:
            done.set()

    return hook, done


async def kill_daemon(site: Site, proceed: Go, *, after: float) -> None:
    """The daemon dies while the call is under way, and its call with it."""
    call = asyncio.ensure_future(proceed())
    await asyncio.wait([call], timeout=after)
    await asyncio.to_thread(site.node.stop, signal.SIGKILL)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    raise LostReply


@pytest.mark.parametrize("after", [0.0, 0.03], ids=["at once", "after 30 ms"])
@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_a_daemon_killed_in_a_call_that_makes_something(site: Site, method: str, after: float) -> None:
    site.proxy.hook, done = once(method, lambda proceed: kill_daemon(site, proceed, after=after))
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    site.proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.running()
    await site.is_whole()


@pytest.mark.parametrize("reached", [True, False], ids=["reply lost", "request lost"])
@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_a_connection_that_breaks_in_a_call_that_makes_something(site: Site, method: str, reached: bool) -> None:
    async def lose(proceed: Go) -> None:
        if reached:
            await proceed()
        raise LostReply

    site.proxy.hook, done = once(method, lose)
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    await site.running()
    await site.is_whole()
    assert site.lines() == ["side started", "main started"]


async def test_a_daemon_killed_in_a_stop_stops_the_container_within_its_grace(site: Site) -> None:
    site.drop(on_term=":", terminationGracePeriodSeconds=4)
    await site.running()
    site.proxy.hook, done = once("StopContainer", lambda proceed: kill_daemon(site, proceed, after=0.5))
    site.remove()
    await asyncio.wait_for(done.wait(), 30)
    site.proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.gone(within=20)
    await site.is_empty()
    assert site.lines()[-1] == "side term"  # in order, although the daemon was replaced meanwhile


@pytest.mark.parametrize("method", ["StopPodSandbox", "RemoveContainer", "RemovePodSandbox"])
async def test_a_daemon_killed_in_a_call_that_takes_down(site: Site, method: str) -> None:
    site.drop()
    await site.running()
    site.proxy.hook, done = once(method, lambda proceed: kill_daemon(site, proceed, after=0.03))
    site.remove()
    await asyncio.wait_for(done.wait(), 30)
    site.proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.gone()
    await site.is_empty()


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_containerd_killed_in_a_call(site: Site, method: str) -> None:
    async def crash(proceed: Go) -> None:
        call = asyncio.ensure_future(proceed())
        await asyncio.wait([call], timeout=0.05)
        await asyncio.to_thread(site.node.containerd.stop, sig=signal.SIGKILL)
        await asyncio.to_thread(site.node.containerd.start)
        await call
        raise LostReply

    site.proxy.hook, done = once(method, crash)
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    await site.running()
    await site.is_whole()


@pytest.mark.parametrize("broken", ["no configuration", "no such plugin"])
async def test_a_pod_network_that_fails_leaves_nothing_once_it_is_mended(site: Site, broken: str) -> None:
    containerd = site.node.containerd
    if broken == "no configuration":
        await asyncio.to_thread(containerd.remove_cni)
    else:
        await asyncio.to_thread(containerd.write_cni, extra={"type": "nosuch"})
    site.drop()

    async def told() -> bool:
        events = (await asyncio.to_thread(site.node.get, "/events"))["items"]
        return any(e["reason"] == "FailedCreatePodSandBox" for e in events)

    await site.until("the failure is told", told)
    await asyncio.to_thread(containerd.write_cni)
    await site.running()

    async def one_sandbox() -> bool:
        return len(await site.cri.list_pod_sandboxes()) == 1

    await site.until("what the failure left is gone", one_sandbox)
    await site.is_whole()
