"""Logs that have become too large are put aside, whatever goes wrong meanwhile (LG-2)."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import structlog

from minikubelet.node.log_rotation import PERIOD, LogRotation
from minikubelet.runtime.errors import ContainerRuntimeError


class Containers:
    """One running container, whose log containerd writes."""

    def __init__(self, folder: Path) -> None:
        self.connected = True
        self.log = folder / "default_web_u-1" / "main" / "0.log"
        self.log.parent.mkdir(parents=True)
        self.logs = {"c-1": self.log}
        self.known = {"c-1"}
        self.reopened: list[str] = []
        self.at_reopen: Callable[[], None] = lambda: self.log.touch(exist_ok=True)

    def running_logs(self) -> Mapping[str, Path]:
        return self.logs

    def has_container(self, container_id: str) -> bool:
        return container_id in self.known

    async def reopen(self, container_id: str) -> None:
        self.reopened.append(container_id)
        self.at_reopen()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.log.parent.iterdir())


@pytest.fixture
def containers(tmp_path: Path) -> Containers:
    return Containers(tmp_path / "logs")


def rotation(containers: Containers, *, max_size: int = 10, max_files: int = 5, step: int = 1) -> LogRotation:
    start = datetime(2026, 1, 1)  # noqa: DTZ001 - local time
    seconds = itertools.count(0, step)
    return LogRotation(
        containers,
        containers.reopen,
        max_size=max_size,
        max_files=max_files,
        now=lambda: start + timedelta(seconds=next(seconds)),
    )


def refuse() -> None:
    raise ContainerRuntimeError("container is not running")


async def test_lg_2_a_log_that_is_large_enough_is_put_aside_and_begun_anew(containers: Containers) -> None:
    rotate = rotation(containers)
    containers.log.write_text("x" * 9)
    await rotate.look()
    assert (containers.files(), containers.reopened) == (["0.log"], [])
    containers.log.write_text("x" * 10)
    await rotate.look()
    assert (containers.files(), containers.reopened) == (["0.log", "0.log.20260101-000000"], ["c-1"])
    assert containers.log.read_text() == ""
    assert PERIOD == 10


async def test_lg_2_older_files_are_packed_and_the_oldest_go(containers: Containers) -> None:
    rotate = rotation(containers, max_files=4)
    for number in range(6):
        containers.log.write_text(f"file {number}, long enough")
        containers.log.chmod(0o640)
        await rotate.look()
    aside = [f"0.log.20260101-00000{number}" for number in range(6)]
    assert containers.files() == ["0.log", f"{aside[3]}.gz", f"{aside[4]}.gz", aside[5]]
    packed = containers.log.with_name(f"{aside[4]}.gz")
    assert gzip.decompress(packed.read_bytes()) == b"file 4, long enough"
    assert packed.stat().st_mode & 0o777 == 0o640


async def test_lg_2_a_log_that_cannot_be_begun_anew_is_put_back_and_told_of_once(containers: Containers) -> None:
    containers.at_reopen = refuse
    containers.log.write_text("x" * 10)
    rotate = rotation(containers)
    with structlog.testing.capture_logs() as told:
        await rotate.look()
        await rotate.look()
    assert containers.files() == ["0.log"]
    assert containers.log.read_text() == "x" * 10
    assert [(line["event"], line["error"]) for line in told] == [
        ("a container's log cannot be rotated", "container is not running")
    ]


async def test_lg_2_a_log_that_was_begun_although_the_call_failed_is_not_overwritten(containers: Containers) -> None:
    def reopen() -> None:
        containers.log.write_text("new")
        refuse()

    containers.at_reopen = reopen
    containers.log.write_text("x" * 10)
    await rotation(containers).look()
    assert containers.log.read_text() == "new"
    assert containers.files() == ["0.log", "0.log.20260101-000000"]


async def test_lg_2_a_file_of_the_same_name_is_not_overwritten(containers: Containers) -> None:
    rotate = rotation(containers, step=0)
    for text in ("the first file", "the second file"):
        containers.log.write_text(text)
        await rotate.look()
    assert containers.log.read_text() == "the second file"
    assert gzip.decompress(containers.log.with_name("0.log.20260101-000000.gz").read_bytes()) == b"the first file"


async def test_lg_2_a_log_that_somebody_removed_is_begun_anew(containers: Containers) -> None:
    await rotation(containers).look()
    assert (containers.files(), containers.reopened) == (["0.log"], ["c-1"])


async def test_lg_2_of_a_container_that_is_removed_meanwhile_nothing_stays(containers: Containers) -> None:
    def removed() -> None:
        containers.known.clear()
        containers.log.unlink(missing_ok=True)
        refuse()

    containers.at_reopen = removed
    containers.log.write_text("x" * 10)
    with structlog.testing.capture_logs() as told:
        await rotation(containers).look()
    assert list(containers.log.parents[2].iterdir()) == []
    assert told == []


async def test_lg_2_nothing_is_done_while_containerd_is_away(containers: Containers) -> None:
    containers.connected = False
    containers.log.write_text("x" * 10)
    await rotation(containers).look()
    assert (containers.files(), containers.reopened) == (["0.log"], [])


async def test_lg_2_a_negative_size_means_never(containers: Containers) -> None:
    async with asyncio.timeout(15):
        await rotation(containers, max_size=-1).run()


async def test_lg_2_links_that_a_pod_put_into_the_folder_are_neither_read_nor_written_through(
    containers: Containers, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the host's own")
    folder = containers.log.parent
    (folder / "0.log.20250101-000000").symlink_to(secret)
    (folder / "0.log.20250102-000000").write_text("older")
    (folder / "0.log.20250102-000000.gz.tmp").symlink_to(secret)
    containers.log.write_text("x" * 10)
    await rotation(containers).look()
    assert not (folder / "0.log.20250101-000000.gz").exists()
    assert gzip.decompress((folder / "0.log.20250102-000000.gz").read_bytes()) == b"older"
    assert secret.read_text() == "the host's own"
    containers.log.unlink()
    containers.log.symlink_to(secret)
    await rotation(containers).look()
    assert containers.log.is_symlink()
