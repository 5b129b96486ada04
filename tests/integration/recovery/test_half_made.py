"""What a call that was cut short leaves behind, for each call: afterwards one sandbox, one container, the right count.

The daemon talks to containerd through a proxy, which lets a test end the daemon, or lose a reply, in the middle of
a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.grpc_proxy import GRPCProxy, Hook, LostReply, Refused
from tests.support.site import Site, private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

Go = Callable[[], Awaitable[None]]


class Proxied(NamedTuple):
    site: Site
    proxy: GRPCProxy


@pytest.fixture
async def proxied() -> AsyncIterator[Proxied]:
    async with private_site(endpoint=Path("proxy.sock"), start=False) as site:
        node = site.node
        async with GRPCProxy(upstream=node.containerd.socket, listen=node.endpoint).serve() as proxy:
            await asyncio.to_thread(node.start)
            yield Proxied(site, proxy)
            await asyncio.to_thread(node.stop, signal.SIGKILL)


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
async def test_a_daemon_killed_in_a_call_that_makes_something(proxied: Proxied, method: str, after: float) -> None:
    site, proxy = proxied
    proxy.hook, done = once(method, lambda proceed: kill_daemon(site, proceed, after=after))
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.running()
    await site.is_whole()


@pytest.mark.parametrize("reached", [True, False], ids=["reply lost", "request lost"])
@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_a_connection_that_breaks_in_a_call_that_makes_something(
    proxied: Proxied, method: str, reached: bool
) -> None:
    site, proxy = proxied

    async def lose(proceed: Go) -> None:
        if reached:
            await proceed()
        raise LostReply

    proxy.hook, done = once(method, lose)
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    await site.running()
    await site.is_whole()
    assert site.lines() == ["side started", "main started"]


async def test_a_daemon_killed_in_a_stop_stops_the_container_within_its_grace(proxied: Proxied) -> None:
    site, proxy = proxied
    site.drop(on_term=":", terminationGracePeriodSeconds=4)
    await site.running()
    proxy.hook, done = once("StopContainer", lambda proceed: kill_daemon(site, proceed, after=0.5))
    site.remove()
    await asyncio.wait_for(done.wait(), 30)
    proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.gone(within=20)
    await site.is_empty()
    assert site.lines()[-1] == "side term"  # in order, although the daemon was replaced meanwhile


@pytest.mark.parametrize("method", ["StopPodSandbox", "RemoveContainer", "RemovePodSandbox"])
async def test_a_daemon_killed_in_a_call_that_takes_down(proxied: Proxied, method: str) -> None:
    site, proxy = proxied
    site.drop()
    await site.running()
    proxy.hook, done = once(method, lambda proceed: kill_daemon(site, proceed, after=0.03))
    site.remove()
    await asyncio.wait_for(done.wait(), 30)
    proxy.hook = None
    await asyncio.to_thread(site.node.start)
    await site.gone()
    await site.is_empty()


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_containerd_killed_in_a_call(proxied: Proxied, method: str) -> None:
    site, proxy = proxied

    async def crash(proceed: Go) -> None:
        call = asyncio.ensure_future(proceed())
        await asyncio.wait([call], timeout=0.05)
        await asyncio.to_thread(site.node.containerd.stop, sig=signal.SIGKILL)
        await asyncio.to_thread(site.node.containerd.start)
        await call
        raise LostReply

    proxy.hook, done = once(method, crash)
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    await site.running()
    await site.is_whole()


@pytest.mark.parametrize("broken", ["no configuration", "no such plugin"])
async def test_a_pod_network_that_fails_leaves_nothing_once_it_is_mended(proxied: Proxied, broken: str) -> None:
    site, _ = proxied
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


# ---- a runtime that refuses for good -----------------------------------------------------
def refusing(method: str, text: str) -> Hook:
    async def hook(name: str, proceed: Go) -> None:
        if name == method:
            raise Refused(text)
        await proceed()

    return hook


async def told(site: Site, reason: str, message: str) -> None:
    async def is_told() -> bool:
        events = (await asyncio.to_thread(site.node.get, "/events"))["items"]
        return any(it["reason"] == reason and message in it["message"] for it in events)

    await site.until(f"{reason} is told", is_told)


async def test_what_a_cut_start_left_and_the_runtime_keeps_does_not_hold_up_the_pod(proxied: Proxied) -> None:
    site, proxy = proxied

    async def die(_proceed: Go) -> None:
        await asyncio.to_thread(site.node.stop, signal.SIGKILL)
        raise LostReply

    proxy.hook, done = once("StartContainer", die)
    site.drop()
    await asyncio.wait_for(done.wait(), 30)
    proxy.hook = refusing("RemoveContainer", "the disk is on fire")
    await asyncio.to_thread(site.node.start)
    await site.running()
    assert {"side started", "main started"} <= set(site.lines())
    await told(site, "Failed", "Error: what a start that was cut short has left cannot be removed: the disk is on fire")
    proxy.hook = None

    async def two_containers() -> bool:
        return len(await site.cri.list_containers()) == 2

    await site.until("what was left is gone", two_containers)
    site.remove()
    await site.gone()
    await site.is_empty()


async def test_a_pod_that_the_runtime_does_not_let_go_yields_its_name(proxied: Proxied) -> None:
    site, proxy = proxied
    site.drop()
    await site.running()
    proxy.hook = refusing("RemovePodSandbox", "the disk is on fire")
    site.drop(activeDeadlineSeconds=3600)
    await told(site, "FailedKillPod", "error killing pod: the disk is on fire")

    async def the_new_one_runs() -> bool:
        return site.lines().count("main started") == 2

    await site.until("the new pod runs", the_new_one_runs)
    assert len(await site.pods()) == 2
    proxy.hook = None

    async def one_pod() -> bool:
        return len(await site.pods()) == len(await site.cri.list_pod_sandboxes()) == 1

    await site.until("the old one is gone", one_pod)
    await site.is_whole()
