"""emptyDirs that outgrow their sizeLimit are told of, once (VO-5)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import structlog

from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.pods.volumes.layout import Layout
from minikubelet.pods.volumes.removal import remove_tree
from minikubelet.pods.volumes.usage import PERIOD, SizeWatch, used_bytes
from tests.unit.runtime.build import pod

KIB = 1024


def fill(path: Path, kib: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * kib * KIB)


def watched(root: Path, limit: str, *, medium: str = "", phase: str = "Running") -> tuple[SizeWatch, Path]:
    of: Pod = pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": limit, "medium": medium}}])
    of = msgspec.structs.replace(of, status=PodStatus(phase=phase))
    layout = Layout(root)
    return SizeWatch(layout, lambda: [of]), layout.volume("u-1", "kubernetes.io~empty-dir", "v")


async def said(watch: SizeWatch) -> list[str]:
    with structlog.testing.capture_logs() as logs:
        await watch.look()
    return [line["event"] for line in logs]


async def test_vo_5_passing_the_limit_is_told_once_and_once_more_after_it_was_kept(tmp_path: Path) -> None:  # D-5
    watch, volume = watched(tmp_path, "64Ki")
    fill(volume / "a", 32)
    assert await said(watch) == []
    fill(volume / "deep/er/b", 64)
    assert await said(watch) == [
        'Usage of EmptyDir volume "v" exceeds the limit "64Ki". Pods are not evicted for that',
    ]
    assert await said(watch) == []
    (volume / "deep/er/b").unlink()
    assert await said(watch) == []
    fill(volume / "deep/er/b", 64)
    assert len(await said(watch)) == 1
    assert PERIOD == 10


@pytest.mark.parametrize(
    ("limit", "medium", "phase"),
    [("64Ki", "Memory", "Running"), ("0", "", "Running"), ("64Ki", "", "Succeeded"), ("64Ki", "", "Failed")],
)
async def test_vo_5_what_is_not_looked_at(tmp_path: Path, limit: str, medium: str, phase: str) -> None:
    watch, volume = watched(tmp_path, limit, medium=medium, phase=phase)
    fill(volume / "a", 100)
    assert await said(watch) == []


async def test_a_volume_that_is_not_there_is_empty(tmp_path: Path) -> None:
    watch, _ = watched(tmp_path, "1")
    assert await said(watch) == []


def test_links_and_second_names_count_for_nothing(tmp_path: Path) -> None:
    volume, outside = tmp_path / "v", tmp_path / "outside"
    fill(outside / "big", 1000)
    fill(volume / "a", 40)
    before = used_bytes(volume)
    os.link(volume / "a", volume / "again")
    (volume / "dir").symlink_to(outside)
    (volume / "file").symlink_to(outside / "big")
    assert before <= used_bytes(volume) < before + 10 * KIB


def test_a_deep_tree_is_counted_without_running_out_of_anything(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert 0 < used_bytes(tmp_path) < 1500 * 4 * KIB
    remove_tree(tmp_path / "d")  # pytest could not
