"""Pods begin while images are being removed: what they run on stays (GI-1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from minikubelet.runtime.images import ImageService
from tests.support.images import PAUSE, Image, write_archive
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

NAMES = [f"example.invalid/race:{number}" for number in range(60)]


def _pod(number: int) -> str:
    main = {"name": "main", "image": NAMES[number], "imagePullPolicy": "Never"}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [main]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod{number}"}, "spec": spec})


async def test_pods_that_begin_during_a_prune_keep_their_images(tmp_path: Path) -> None:
    images = [Image(names=(name,), cmd=("sleep", "1000"), env=("PATH=/bin", f"NAME={name}")) for name in NAMES]
    async with private_site(images=(PAUSE,)) as site:
        service = ImageService(site.channel)

        async def present() -> set[str]:
            return {name for it in await service.list_images() for name in it.repo_tags if name in NAMES}

        async def begun() -> bool:
            return len(await present()) < len(NAMES)

        async def settled() -> bool:
            found = [(it["status"].get("containerStatuses") or [{}])[0].get("state", {}) for it in await site.pods()]
            done = ["running" in it or it.get("waiting", {}).get("reason") == "ErrImageNeverPull" for it in found]
            return len(done) == len(NAMES) and all(done)

        archive = await asyncio.to_thread(write_archive, tmp_path / "images.tar", images)
        await asyncio.to_thread(site.node.cli, "images", "import", str(archive))
        staged = site.node.base / "staged"
        staged.write_text("\n---\n".join(_pod(number) for number in range(len(NAMES))))
        pruning = asyncio.create_task(asyncio.to_thread(site.node.cli, "images", "prune"))
        await site.until("the first image is gone", begun)
        staged.rename(site.node.manifests / "pods.yaml")
        said = await pruning
        await site.until("each pod runs or has no image", settled)
        removed = {name for name in NAMES if f"{name} removed" in said}
        running = {
            it["spec"]["containers"][0]["image"]
            for it in await site.pods()
            if "running" in it["status"]["containerStatuses"][0]["state"]
        }
        assert removed
        assert await present() == set(NAMES) - removed == running
