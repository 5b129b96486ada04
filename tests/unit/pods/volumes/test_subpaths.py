"""subPath: what a container is given of a volume, and what it can never reach (MT-8, MT-9)."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from minikubelet.api.pod import VolumeMount
from minikubelet.pods.volumes import VolumeError, VolumeManager, subpaths
from minikubelet.pods.volumes.mounts import below, is_mount_point
from minikubelet.pods.volumes.plugin import PluginError
from tests.unit.runtime.build import container, pod

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "root"
    folder.mkdir()
    yield folder
    for point in reversed(below(folder)):
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    path.chmod(0o775)
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What no container may ever reach."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text("the host's own")
    return path


def mount(**fields: Any) -> VolumeMount:
    return msgspec.convert({"name": "v", "mountPath": "/m", **fields}, VolumeMount)


# ---- MT-8 --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"subPath": "a/b"}, "a/b"),
        ({"subPath": "$(A)"}, "$(A)"),
        ({"subPathExpr": "$(A)/x-$(B)"}, "va/x-vb"),
        ({"subPathExpr": "$$(A)"}, "$(A)"),
    ],
)
def test_mt_8_the_path_that_is_asked_for(fields: dict[str, Any], expected: str) -> None:
    assert subpaths.sub_path_of(mount(**fields), {"A": "va", "B": "vb"}) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subPath": "/x"}, "error SubPath `/x` must not be an absolute path"),
        ({"subPath": "a/../b"}, "unable to provision SubPath `a/../b`: must not contain '..'"),
        ({"subPathExpr": "$(UP)/x"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPathExpr": "$(ROOT)x"}, "error SubPath `/x` must not be an absolute path"),
        ({"subPathExpr": "$(Z)$(A)$(Z)$(EMPTY)"}, "missing value for EMPTY, Z"),
    ],
)
def test_mt_8_paths_that_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        subpaths.sub_path_of(mount(**fields), {"A": "va", "UP": "..", "ROOT": "/", "EMPTY": ""})
    assert str(caught.value) == message


# ---- MT-9 --------------------------------------------------------------------------------
async def held(root: Path, volume: Path, path: str) -> Path:
    of = container(volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "subPath": path}])
    places = await VolumeManager(root).subpaths(pod(of), of, volumes={"v": str(volume)}, environment={})
    assert list(places) == [1]
    return Path(places[1])


@needs_root
async def test_mt_9_a_directory_of_the_volume_is_bound_to_a_place_of_the_agents_own(root: Path, volume: Path) -> None:
    (volume / "a/b").mkdir(parents=True)
    (volume / "a/b/file").write_text("here")
    place = await held(root, volume, "a/b")
    assert place == root / "pods/u-1/volume-subpaths/v/main/1"
    assert (place / "file").read_text() == "here"
    assert is_mount_point(place)
    (place / "new").touch()
    assert (volume / "a/b/new").exists()


@needs_root
async def test_mt_9_a_file_too(root: Path, volume: Path) -> None:
    (volume / "file").write_text("here")
    place = await held(root, volume, "file")
    assert place.read_text() == "here"
    assert is_mount_point(place)


@needs_root
async def test_mt_9_what_is_missing_is_made_with_the_volumes_own_permissions(root: Path, volume: Path) -> None:
    before = os.umask(0o077)
    try:
        await held(root, volume, "x/y//./z")
    finally:
        os.umask(before)
    for path in (volume / "x", volume / "x/y", volume / "x/y/z"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o775


@needs_root
async def test_mt_9_held_once_it_is_used_again_and_another_is_held_anew(root: Path, volume: Path) -> None:
    (volume / "a").mkdir()
    place = await held(root, volume, "a")
    assert await held(root, volume, "a") == place
    assert len(below(root)) == 1
    (volume / "a").rename(volume / "was")
    (volume / "a").write_text("a file now")
    assert (await held(root, volume, "a")).read_text() == "a file now"
    (volume / "a").unlink()
    (volume / "was").rename(volume / "a")
    assert (await held(root, volume, "a")).is_dir()
    assert len(below(root)) == 1


@needs_root
async def test_mt_9_links_within_the_volume_are_followed(root: Path, volume: Path) -> None:
    (volume / "v1").mkdir()
    (volume / "v1/file").write_text("here")
    (volume / "current").symlink_to("v1")
    (volume / "absolute").symlink_to(volume / "current")
    assert ((await held(root, volume, "current")) / "file").read_text() == "here"
    assert ((await held(root, volume, "absolute")) / "file").read_text() == "here"
    await held(root, volume, "current/made")
    assert (volume / "v1/made").is_dir()


@needs_root
@pytest.mark.parametrize(
    "path", ["link", "link/secret", "link/new/dir", "up/outside", "chain/secret", "loop", "loop/x"]
)
async def test_mt_9_links_that_lead_out_are_refused_and_the_message_tells_nothing_of_the_host(
    root: Path, volume: Path, outside: Path, path: str
) -> None:
    (volume / "link").symlink_to(outside)
    (volume / "up").symlink_to("..")
    (volume / "chain").symlink_to("link")
    (volume / "loop").symlink_to("loop")
    with pytest.raises(VolumeError) as caught:
        await held(root, volume, path)
    assert str(caught.value) in (
        'failed to create subPath directory for volumeMount "v" of container "main"',
        'failed to prepare subPath for volumeMount "v" of container "main"',
    )
    assert below(root) == []
    assert [entry.name for entry in outside.iterdir()] == ["secret"]


@needs_root
async def test_mt_9_the_places_go_with_the_volumes(root: Path, volume: Path) -> None:
    (volume / "a").mkdir()
    (volume / "a/file").touch()
    manager = VolumeManager(root)
    await held(root, volume, "a")
    await manager.teardown("u-1")
    assert below(root) == []
    assert not (root / "pods/u-1/volume-subpaths").exists()
    assert (volume / "a/file").exists(), "only the place is removed, never what was bound there"


class Hostile:
    """A container that turns a part of the path into a link to the outside and back, as fast as it can."""

    def __init__(self, volume: Path, outside: Path, path: str) -> None:
        self._spot = volume / path
        self._evil = self._spot.with_name(".evil")
        self._evil.symlink_to(outside)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._swap)
        self.swaps = 0

    def _swap(self) -> None:
        here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        libc = ctypes.CDLL(None, use_errno=True)
        while not self._ended.is_set():
            assert libc.renameat2(here, bytes(self._spot), here, bytes(self._evil), exchange) == 0
            self.swaps += 1
        if self._spot.is_symlink():
            libc.renameat2(here, bytes(self._spot), here, bytes(self._evil), exchange)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@needs_root
@pytest.mark.parametrize(("swapped", "path"), [("a", "a/secret"), ("a/b", "a/b"), ("a/b", "a/b/secret"), ("a", "a/b")])
def test_mt_9_a_hostile_container_never_gets_at_the_outside(
    root: Path, volume: Path, outside: Path, swapped: str, path: str
) -> None:
    """The directory that is swapped has a file of the same name as the one outside, so only the content tells."""
    (volume / "a/b").mkdir(parents=True)
    for directory in (volume / "a", volume / "a/b"):
        (directory / "secret").write_text("the volume's own")
    (outside / "b").mkdir()
    (outside / "b/secret").write_text("the host's own")
    place = root / "place"
    refused = reached = 0
    with Hostile(volume, outside, swapped) as hostile:
        deadline = time.monotonic() + 10
        while min(refused, reached) < 50 and time.monotonic() < deadline:
            try:
                subpaths.hold(volume, path, place)
            except OSError:
                refused += 1
                continue
            found = place / "secret" if place.is_dir() else place
            assert found.read_text() == "the volume's own"
            reached += 1
    assert hostile.swaps > 0
    assert min(refused, reached) > 0, "the race was on"


@needs_root
def test_mt_9_nor_are_directories_made_outside(volume: Path, outside: Path) -> None:
    (volume / "a").mkdir()
    made = 0
    with Hostile(volume, outside, "a"):
        for number in range(400):
            try:
                subpaths.make_missing(volume, f"a/new{number}/er")
            except OSError:
                continue
            made += 1
    assert [entry.name for entry in outside.iterdir()] == ["secret"]
    assert made == len(list((volume / "a").glob("new*/er")))
    assert made > 0


@needs_root
async def test_mt_9_the_pods_group_goes_on_to_what_is_made_in_its_volume(root: Path, volume: Path) -> None:
    os.chown(volume, 0, 3000)
    volume.chmod(0o2775)
    await held(root, volume, "x/y")
    assert {path.stat().st_gid for path in (volume / "x", volume / "x/y")} == {3000}
