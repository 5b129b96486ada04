"""What the folder of a pod's logs tells (CC-1)."""

from __future__ import annotations

from pathlib import Path

from minikubelet.pods.logs import logged_attempts
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
