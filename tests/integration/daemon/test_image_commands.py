"""`minikubelet images` on real containerd, with a registry beside it, and what is removed of whom (GI-1, D-8)."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.images import BUSYBOX, OTHER_BUSYBOX, PAUSE, Image, write_archive
from tests.support.registry import Registry
from tests.support.site import Site, private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

PULLED = Image(names=("example.invalid/pulled:1",), files={"mark": b"pulled"})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """The pause image and busybox 1.37 are others' here: `ctr` has imported them."""
    async with private_site(images=(PAUSE, OTHER_BUSYBOX)) as site:
        yield site


async def _images(site: Site, *arguments: str) -> str:
    return await asyncio.to_thread(site.node.cli, "images", *arguments)


async def _table(site: Site) -> dict[str, tuple[str, str]]:
    """IN USE and PROTECTED by name."""
    _, *lines = (await _images(site, "list")).splitlines()
    found = {}
    for line in lines:
        name, _, _, in_use, *protected = line.split()
        found[name] = in_use, " ".join(protected)
    return found


async def test_list_import_and_prune_tell_whose_each_image_is(site: Site) -> None:
    write_archive(site.node.base / "busybox.tar", [BUSYBOX])
    said = await _images(site, "import", str(site.node.base / "busybox.tar"))
    assert said.splitlines() == [f"{name} imported" for name in BUSYBOX.names]
    site.node.images.mkdir()
    kept = Image(names=("example.invalid/kept:1",), files={"mark": b"kept"})
    write_archive(site.node.images / "kept.tar", [kept])

    async def is_kept() -> bool:
        return (await _table(site)).get("example.invalid/kept:1") == ("no", "archive")

    await site.until("the archive is imported", is_kept)
    site.drop()
    await site.running()
    found = await _table(site)
    # containerd 2 pins it, and does not say that it is the sandbox image.
    assert found.pop("minikubelet.invalid/pause:1") in {("yes", "sandbox image"), ("no", "pinned")}
    assert found == {
        "docker.io/library/busybox:1.36": ("yes", "manifest"),
        "docker.io/library/busybox:latest": ("yes", "manifest"),
        "docker.io/library/busybox:1.37": ("no", "others'"),
        "example.invalid/kept:1": ("no", "archive"),
    }
    assert await _images(site, "prune") == "0 images removed, 0B\n"
    site.remove()
    await site.gone()
    first, total = (await _images(site, "prune")).splitlines()
    assert first.startswith("docker.io/library/busybox:1.36 removed, ")
    assert total.startswith("1 image removed, ")
    assert "busybox:1.37 removed" in await _images(site, "prune", "--all")
    assert set(await _table(site)) == {"example.invalid/kept:1", "minikubelet.invalid/pause:1"}


async def test_a_pull_uses_the_nodes_credentials_wakes_who_waits_and_is_noted(site: Site, tmp_path: Path) -> None:
    async with Registry(tmp_path, users=[("jo", "secret")], image=PULLED) as registry:
        image = f"{registry.address}/team/app:1"
        with pytest.raises(subprocess.CalledProcessError) as refused:
            await _images(site, "pull", image)
        assert f"{image} cannot be pulled: " in refused.value.stdout
        main = {"name": "main", "image": image, "command": ["sleep", "1000"], "imagePullPolicy": "Never"}
        site.drop(containers=[main], initContainers=[], volumes=[], terminationGracePeriodSeconds=0)

        async def waits() -> bool:
            return "ErrImageNeverPull" in json.dumps(await site.pods())

        await site.until("the pod waits for its image", waits)
        auth = base64.b64encode(b"jo:secret").decode()
        config = site.node.base / "minikubelet" / "config.json"
        config.write_text(json.dumps({"auths": {registry.address: {"auth": auth}}}))
        assert f"{image} pulled in " in await _images(site, "pull", image)
        await site.running()
        assert (await _table(site))[image] == ("yes", "manifest")
        site.remove()
        await site.gone()
        assert f"{image} removed" in await _images(site, "prune")
        assert image not in await _table(site)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["pull", "UPPER"], "must be lowercase"),
        (["import", "/nowhere/x.tar"], "/nowhere/x.tar: cannot be read: No such file or directory"),
        (["import", "/dev/null"], "/dev/null: is not a regular file"),
    ],
    ids=str,
)
async def test_what_cannot_be_done_is_told(site: Site, arguments: list[str], problem: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        await _images(site, *arguments)
    assert problem in refused.value.stdout


def _endless(path: Path) -> Path:
    """An archive that takes minutes to read, and no space."""
    member = tarfile.TarInfo("slow")
    member.size = 900 << 30
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT))
    os.truncate(path, member.size)
    return path


async def test_imports_that_nobody_waits_for_any_more_end(site: Site) -> None:
    slow = _endless(site.node.base / "slow.tar")
    quick = write_archive(site.node.base / "busybox.tar", [BUSYBOX])
    socket = site.node.base / "minikubelet" / "minikubelet.sock"
    program = Path(sys.executable).with_name("minikubelet")
    given_up = [
        await asyncio.create_subprocess_exec(
            program,
            "images",
            "import",
            slow,
            "--socket",
            socket,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        for _ in range(4)
    ]
    heard = [asyncio.ensure_future(it.stdout.readline()) for it in given_up if it.stdout is not None]
    for told in itertools.islice(asyncio.as_completed(heard), len(given_up) - 1):  # all but one wait for that one
        assert b"is imported when the import that goes on has ended" in await told
    for each in given_up:
        each.kill()
        await each.wait()
    await asyncio.gather(*heard)
    assert "busybox:1.36 imported" in await _images(site, "import", str(quick))


async def test_the_daemons_end_does_not_wait_for_a_slow_archive(site: Site) -> None:
    site.node.images.mkdir()
    _endless(site.node.base / "slow.tar").rename(site.node.images / "slow.tar")

    async def is_read() -> bool:
        status = await asyncio.to_thread(site.node.get, "/status")
        return bool(status["imageArchives"]["importing"] == ["slow.tar"])

    await site.until("it is read", is_read)
    began = asyncio.get_running_loop().time()
    await asyncio.to_thread(site.node.stop)
    assert asyncio.get_running_loop().time() - began < 19, "it was killed"


async def test_a_containerd_that_hangs_is_told_of(site: Site) -> None:
    site.node.containerd.signal(signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.CalledProcessError) as refused:
            await _images(site, "list")
    finally:
        site.node.containerd.signal(signal.SIGCONT)
    assert "containerd has not told its images within 5 s" in refused.value.stdout
