"""Clean-up of images on a real containerd and its real file system (GI-1, D-8)."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

import pytest

from minikubelet.node.image_gc import Limits
from minikubelet.node.image_keeper import ImageKeeper
from minikubelet.pods.image_uses import ImageUses
from tests.integration.runtime.conftest import Bench, sh
from tests.support.images import BUSYBOX_NAME, PAUSE_NAME, Image, write_archive

pytestmark = pytest.mark.containerd


class NoArchives:
    async def idle(self) -> None:
        return

    def names(self) -> Collection[str]:
        return ()


async def test_a_disk_that_is_too_full_keeps_what_is_needed_and_tells_what_is_short(
    own_bench: Bench, tmp_path: Path
) -> None:
    def image(name: str) -> Image:
        return Image(names=(f"docker.io/library/{name}:1",), files={"mark": name.encode()})

    await own_bench.images.import_archive(write_archive(tmp_path / "a.tar", [image("spare"), image("wanted")]))
    pod = own_bench.pod(sh("exit 0"))
    await own_bench.run(pod, await own_bench.sandbox(pod))  # it ends, and its image stays in use
    short: list[str] = []
    keeper = ImageKeeper(
        own_bench.images,
        own_bench.cri,
        archives=NoArchives(),
        uses=ImageUses(),
        wanted=lambda: {"docker.io/library/wanted:1"},
        sandbox_image=lambda: PAUSE_NAME,
        limits=Limits(high=1, low=0, minimum_age=0),
        short=short.append,
        clock=time.time,
    )
    found = {name: it for it in await keeper.look() for name in it.names}
    assert {name: (it.in_use, it.protected) for name, it in found.items() if "latest" not in name} == {
        BUSYBOX_NAME: (True, ""),
        PAUSE_NAME: (True, "sandbox image"),
        "docker.io/library/spare:1": (False, ""),
        "docker.io/library/wanted:1": (False, "manifest"),
    }
    await keeper.collect()
    left = {name for it in await own_bench.images.list_images() for name in it.repo_tags}
    assert left >= {BUSYBOX_NAME, PAUSE_NAME, "docker.io/library/wanted:1"}
    assert "docker.io/library/spare:1" not in left
    (told,) = short
    assert f"but only {found['docker.io/library/spare:1'].size} could be" in told
