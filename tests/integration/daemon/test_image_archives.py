"""A host without network: pods run from the folder of manifests and the folder of image archives alone."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikubelet.runtime.images import ImageService
from tests.support.images import BUSYBOX, PAUSE, Image, write_archive, write_docker_archive
from tests.support.site import Site, private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

APP = Image(names=("registry.invalid/app:1",), cmd=("sh", "-c", "echo one; exec sleep 1000"))


@pytest.fixture
async def bare() -> AsyncIterator[Site]:
    """A containerd without a single image, and a daemon that does not run yet."""
    async with private_site(start=False, images=()) as site:
        site.node.images.mkdir()
        yield site


async def _state(site: Site) -> dict[str, Any]:
    statuses = [status for pod in await site.pods() for status in pod["status"].get("containerStatuses", [])]
    state: dict[str, Any] = statuses[0]["state"] if statuses else {}
    return state


def _drop(site: Site, image: str, policy: str) -> None:
    main = {"name": "main", "image": image, "imagePullPolicy": policy}
    site.drop(containers=[main], initContainers=[], volumes=[], terminationGracePeriodSeconds=0)


async def test_two_folders_are_all_it_takes(bare: Site) -> None:
    write_archive(bare.node.images / "pause.tar", [PAUSE])
    packed = gzip.compress(write_docker_archive(bare.node.base / "plain", BUSYBOX).read_bytes(), 1)
    (bare.node.images / "busybox.tar.gz").write_bytes(packed)
    bare.drop(dnsPolicy="Default")
    await asyncio.to_thread(bare.node.start)
    await bare.running()
    events = (await asyncio.to_thread(bare.node.get, "/events"))["items"]
    assert [it for it in events if it["type"] == "Warning"] == [], "nobody looked for an image before it was there"
    status = (await asyncio.to_thread(bare.node.get, "/status"))["imageArchives"]
    assert status["errors"] == []
    assert {it["file"]: it["images"] for it in status["archives"]} == {
        "busybox.tar.gz": ["docker.io/library/busybox:1.36", "docker.io/library/busybox:latest"],
        "pause.tar": list(PAUSE.names),
    }


@pytest.mark.parametrize(
    ("policy", "reason"), [("Never", "ErrImageNeverPull"), ("IfNotPresent", "ImagePullBackOff")], ids=str
)
async def test_a_pod_begins_when_its_image_arrives(bare: Site, policy: str, reason: str) -> None:
    write_archive(bare.node.images / "pause.tar", [PAUSE])
    _drop(bare, "registry.invalid/app:1", policy)
    await asyncio.to_thread(bare.node.start)

    async def waits() -> bool:
        return bool((await _state(bare)).get("waiting", {}).get("reason") == reason)

    await bare.until(f"it waits with {reason}", waits)
    broken = bare.node.images / "app.tar"
    archive = write_archive(bare.node.base / "app", [APP])
    broken.write_bytes(archive.read_bytes()[:100_000])  # half a copy

    async def is_told() -> bool:
        return "ends too early" in await asyncio.to_thread(bare.node.cli, "status")

    await bare.until("the half copy is told of", is_told)
    archive.rename(broken)
    await bare.running()
    assert "ends too early" not in await asyncio.to_thread(bare.node.cli, "status")


async def test_what_was_imported_is_not_imported_again_unless_containerd_has_lost_it(bare: Site) -> None:
    write_archive(bare.node.images / "pause.tar", [PAUSE])
    write_archive(bare.node.images / "app.tar", [APP])

    def imports() -> list[str]:
        log = bare.node.log.read_text()
        return [line for line in log.splitlines() if "importing an image archive" in line]

    async def imported() -> bool:
        status = (await asyncio.to_thread(bare.node.get, "/status"))["imageArchives"]
        return not status["importing"] and len(status["archives"]) == 2

    await asyncio.to_thread(bare.node.start)
    await bare.until("both are imported", imported)
    assert len(imports()) == 2
    await asyncio.to_thread(bare.node.stop)
    await asyncio.to_thread(bare.node.start)
    _drop(bare, "registry.invalid/app:1", "Never")
    await bare.running()
    assert len(imports()) == 2
    bare.remove()
    await bare.gone()
    await asyncio.to_thread(bare.node.ctr, "images", "rm", "registry.invalid/app:1")
    _drop(bare, "registry.invalid/app:1", "Never")
    await bare.running()
    assert len(imports()) == 3
    assert "app.tar" in imports()[-1]


async def test_the_archive_that_came_last_counts_and_the_other_when_it_goes(bare: Site) -> None:
    write_archive(bare.node.images / "first.tar", [APP])
    await asyncio.to_thread(bare.node.start)
    images = ImageService(bare.channel)

    async def has(mark: bytes | None) -> bool:
        found = await images.status("registry.invalid/app:1")
        return found is not None and found.id == ids[mark]

    ids: dict[bytes | None, str] = {}

    async def first_is_there() -> bool:
        found = await images.status("registry.invalid/app:1")
        ids[None] = found.id if found else ""
        return found is not None

    await bare.until("the first is there", first_is_there)
    second = write_archive(bare.node.base / "second", [Image(names=APP.names, files={"mark": b"2"})])
    shutil.copy(second, bare.node.images / "second.tar")

    async def is_another() -> bool:
        found = await images.status("registry.invalid/app:1")
        return found is not None and found.id != ids[None]

    await bare.until("the second counts", is_another)
    (bare.node.images / "second.tar").unlink()
    await bare.until("the first counts again", lambda: has(None))
