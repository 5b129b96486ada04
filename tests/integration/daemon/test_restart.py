"""What a daemon makes of pods after it was away: killed, upgraded, robbed of its database."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import Site, private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]

IN_ORDER = ["side started", "main started", "main term", "side term"]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with private_site() as site:
        yield site


def database(site: Site) -> Path:
    return site.node.base / "minikubelet" / "minikubelet.db"


async def kill(site: Site) -> None:
    await asyncio.to_thread(site.node.stop, signal.SIGKILL)


async def start(site: Site) -> None:
    await asyncio.to_thread(site.node.start)


async def container_ids(site: Site) -> dict[str, str]:
    return {c.metadata.name: c.id for c in await site.cri.list_containers()}


async def statuses(site: Site) -> dict[str, Any]:
    found = [pod["status"] for pod in await site.pods()]
    return {s["name"]: s for it in found for s in it.get("initContainerStatuses", []) + it.get("containerStatuses", [])}


@pytest.mark.parametrize("remembers", [True, False], ids=["from its database", "from the sandbox alone"])
async def test_a_pod_whose_manifest_went_meanwhile_is_ended_in_order(site: Site, remembers: bool) -> None:
    site.drop()
    await site.running()
    await kill(site)
    site.remove()
    if not remembers:
        for file in database(site).parent.glob("minikubelet.db*"):
            file.unlink()
    await start(site)

    async def nothing_left() -> bool:
        return not await site.cri.list_pod_sandboxes()

    await site.until("nothing of it is left", nothing_left)
    await site.gone()
    await site.is_empty()
    assert site.lines() == IN_ORDER


async def test_a_pod_whose_manifest_broke_meanwhile_goes_on_and_the_error_is_shown(site: Site) -> None:
    site.drop()
    await site.running()
    before = await container_ids(site)
    await kill(site)
    (site.node.manifests / "pod.json").write_text("{ this is no JSON")
    await start(site)
    await site.running()
    await site.is_whole()
    assert await container_ids(site) == before
    status = await asyncio.to_thread(site.node.get, "/status")
    assert [error["file"] for error in status["manifests"]["errors"]] == ["pod.json"]


async def test_a_manifest_that_changed_meanwhile_replaces_its_pod_in_order(site: Site) -> None:
    site.drop()
    await site.running()
    before = await container_ids(site)
    await kill(site)
    site.drop(terminationGracePeriodSeconds=20)
    await start(site)

    async def replaced() -> bool:
        now = await container_ids(site)
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    await site.until("the new pod's containers are there", replaced)
    await site.running()
    await site.is_whole()
    assert site.lines() == [*IN_ORDER, "side started", "main started"]


async def test_a_lost_database_costs_no_container(site: Site) -> None:
    site.drop()
    await site.running()
    before = await container_ids(site)
    await kill(site)
    for file in database(site).parent.glob("minikubelet.db*"):
        file.unlink()
    database(site).write_bytes(b"no database " * 1000)
    await start(site)
    await site.running()
    await site.is_whole()
    assert await container_ids(site) == before
    assert list(database(site).parent.glob("*.damaged-*"))


async def test_cc_1_where_everything_is_lost_the_logs_still_tell_how_often_a_container_was_started(site: Site) -> None:
    site.drop()
    await site.running()
    (pod,) = await site.pods()
    logs = site.node.logs / f"default_pod_{pod['metadata']['uid']}"
    await kill(site)
    for file in database(site).parent.glob("minikubelet.db*"):
        file.unlink()
    for sandbox in await site.cri.list_pod_sandboxes():
        await site.cri.stop_pod_sandbox(sandbox.id)
        await site.cri.remove_pod_sandbox(sandbox.id)
    await start(site)
    await site.running()
    (pod,) = await site.pods()
    statuses = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
    assert {status["name"]: status["restartCount"] for status in statuses} == {"side": 1, "main": 1}
    assert sorted(file.name for file in (logs / "main").iterdir()) == ["0.log", "1.log"]


async def test_back_off_goes_on_where_it_was(site: Site) -> None:
    site.drop(on_term="exit 0", crash=True)

    async def backing_off() -> bool:
        found = (await statuses(site)).get("main", {})
        reason: str = found.get("state", {}).get("waiting", {}).get("reason", "")
        return found.get("restartCount") == 1 and reason == "CrashLoopBackOff"

    await site.until("the second crash is being waited for", backing_off)
    await kill(site)
    crashed = time.monotonic()
    await start(site)
    await site.until("the back-off still shows", backing_off, within=5)
    starts = len(site.lines())

    async def again() -> bool:
        return len(site.lines()) > starts

    await site.until("the main is started again", again, within=20)
    assert 6 < time.monotonic() - crashed < 14  # 10 s from the exit


async def test_a_finished_pod_stays_as_it_was(site: Site) -> None:
    site.drop(restartPolicy="Never", finish=True)

    async def succeeded() -> bool:
        found = [pod["status"] for pod in await site.pods()]
        conditions = [(it["type"], it["status"]) for status in found for it in status.get("conditions", [])]
        over = [it["phase"] for it in found] == ["Succeeded"]
        return over and ("PodReadyToStartContainers", "False") in conditions  # its sandbox, too, has come to its end

    await site.until("the pod has succeeded", succeeded)
    before = await site.pods()
    await kill(site)
    await start(site)
    await asyncio.sleep(1)  # time in which it might do something foolish
    assert await site.pods() == before
    assert site.lines().count("main started") == 1


async def test_containers_outlive_a_restart_of_containerd(site: Site) -> None:
    site.drop()
    await site.running()
    before = await container_ids(site)
    await asyncio.to_thread(site.node.containerd.stop, sig=signal.SIGKILL)

    async def unready() -> bool:
        status = await asyncio.to_thread(site.node.get, "/status")
        return not status["runtime"]["connected"]

    await site.until("the daemon says that containerd is away", unready)
    site.drop("later")
    await asyncio.to_thread(site.node.containerd.start)
    await site.running()

    async def both() -> bool:
        return len(await container_ids(site)) == 2 and len(await site.cri.list_containers()) == 4

    await site.until("the pod that came meanwhile runs, too", both)
    after = {c.id for c in await site.cri.list_containers()}
    assert set(before.values()) <= after
    assert site.lines() == ["side started", "main started"]


async def test_a_second_daemon_on_the_same_state_is_refused(site: Site) -> None:
    done = await asyncio.to_thread(site.node.run_second)
    assert done.returncode == 1
    assert "another minikubelet works with" in done.stderr
    site.drop()
    await site.running()


async def test_a_database_of_a_newer_version_is_refused_plainly(site: Site) -> None:
    await kill(site)
    connection = sqlite3.connect(database(site))
    connection.execute("PRAGMA user_version = 1000")
    connection.close()
    done: subprocess.CompletedProcess[str] = await asyncio.to_thread(site.node.run_second)
    assert done.returncode == 1
    assert "was written by a newer minikubelet" in done.stderr
