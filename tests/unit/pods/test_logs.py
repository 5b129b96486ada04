"""What the folder of a pod's logs tells, and the links to the logs (CC-1, CC-12)."""

from __future__ import annotations

from pathlib import Path

from minikubelet.pods.logs import link_container_log, logged_attempts
from tests.unit.runtime.build import node, pod


async def test_cc_1_the_highest_attempt_that_a_log_is_left_of(tmp_path: Path) -> None:
    here = tmp_path / "default_web_u-1"
    for name in (
        "main/2.log",
        "main/10.log.20260101-000000.gz",
        "main/11.logs",
        "main/x12.log",
        "main/99999999999.log",
        "side/0.log",
        "none/notes",
        "20.log",
    ):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).touch()
    assert await logged_attempts(pod(), node(log_dir=tmp_path)) == {"main": 10, "side": 0}


async def test_cc_1_no_logs_no_attempts(tmp_path: Path) -> None:
    assert await logged_attempts(pod(), node(log_dir=tmp_path)) == {}


async def test_cc_12_a_log_is_linked_if_it_is_there_under_a_name_that_is_not_too_long(tmp_path: Path) -> None:
    log = tmp_path / "pods" / "default_web_u-1" / "main" / "0.log"
    at, links = node(log_dir=tmp_path / "pods"), tmp_path / "containers"

    async def link(container: str) -> None:
        await link_container_log(pod(), container, container_id="c" * 64, log_path="main/0.log", node=at)

    await link("main")
    assert not links.exists()
    log.parent.mkdir(parents=True)
    log.touch()
    await link("main")
    await link("main")  # again: after a crash
    await link("x" * 200)
    assert {entry.name: entry.readlink() for entry in links.iterdir()} == {
        f"web_default_main-{'c' * 64}.log": log,
        f"web_default_{'x' * 200}-{'c' * 38}.log": log,
    }
