"""Edits of a manifest with a uid of its own, on a real node: what a running pod gains, what makes it another pod."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.support.site import Site, private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]

UID = "own-uid"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with private_site() as site:
        yield site


def container(name: str, *mounted: str) -> dict[str, Any]:
    script = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"
    mounts = [{"name": volume, "mountPath": f"/{volume}"} for volume in mounted]
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], "volumeMounts": mounts}


def drop(site: Site, *, name: str = "pod", **spec: object) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": UID}, "spec": spec}
    staged = site.node.base / "staged"
    staged.write_bytes(msgspec.json.encode(manifest))
    staged.rename(site.node.manifests / "pod.json")


async def running(site: Site, *wanted: str, name: str = "pod") -> None:
    async def so() -> bool:
        found = {p["metadata"]["name"]: p["status"].get("containerStatuses", []) for p in await site.pods()}
        running = {s["name"] for s in found.get(name, []) if "running" in s["state"]}
        return found.keys() == {name} and running == set(wanted)

    await site.until(f"{name} runs {wanted}", so, within=30)


async def test_a_container_that_an_edit_adds_gets_its_new_volume(site: Site) -> None:
    drop(site, containers=[container("a")])
    await running(site, "a")
    before = {c.id for c in await site.cri.list_containers()}
    drop(site, containers=[container("a"), container("b", "data")], volumes=[{"name": "data", "emptyDir": {}}])
    await running(site, "a", "b")
    assert before < {c.id for c in await site.cri.list_containers()}


async def test_a_pod_renamed_while_the_daemon_was_away_is_another_pod(site: Site) -> None:
    drop(site, containers=[container("a")])
    await running(site, "a")
    before = {c.id for c in await site.cri.list_containers()}
    await asyncio.to_thread(site.node.stop, signal.SIGKILL)
    drop(site, name="other", containers=[container("a")])
    await asyncio.to_thread(site.node.start)
    await running(site, "a", name="other")
    assert not before & {c.id for c in await site.cri.list_containers()}
    assert [path.name for path in site.node.logs.iterdir()] == [f"default_other_{UID}"]


async def test_a_pod_put_back_while_it_ends_ends_as_it_was_also_across_a_crash(site: Site) -> None:
    slow = "trap 'sleep 3; exit 0' TERM; while :; do sleep 1000 & wait; done"
    drop(site, containers=[{**container("a"), "command": ["sh", "-c", slow]}], terminationGracePeriodSeconds=20)
    await running(site, "a")
    site.remove()

    async def told() -> bool:
        return any("deletionTimestamp" in pod["metadata"] for pod in await site.pods())

    await site.until("it is being ended", told)
    await asyncio.to_thread(site.node.stop, signal.SIGKILL)
    drop(site, containers=[container("b")])
    await asyncio.to_thread(site.node.start)
    ended = set()

    async def again() -> bool:
        (pod,) = await site.pods()
        names = tuple(it["name"] for it in pod["spec"]["containers"])
        if "deletionTimestamp" in pod["metadata"]:
            ended.add(names)
        return names == ("b",) and "deletionTimestamp" not in pod["metadata"]

    await site.until("it is there again", again, within=20)
    assert ended == {("a",)}
    await running(site, "b")
