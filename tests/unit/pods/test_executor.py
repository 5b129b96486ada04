"""In which order an action is carried out, where that matters (GC-1)."""

from __future__ import annotations

import types
from pathlib import Path
from typing import cast

import pytest

from minikubelet.lifecycle.actions import RemoveContainer
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.pods.executor import Executor
from minikubelet.pods.services import Services
from minikubelet.pods.tasks import Handle
from minikubelet.runtime.errors import ContainerRuntimeError
from tests.unit.runtime.build import node, pod


async def test_gc_1_the_logs_of_a_container_go_before_its_record(tmp_path: Path) -> None:
    """So that a daemon that is killed in between leaves none behind; those of other instances stay."""
    folder = tmp_path / "pods" / "default_web_u-1" / "main"
    folder.mkdir(parents=True)
    for name in ("1.log", "1.log.20260101-000000.gz", "11.log", "2.log"):
        (folder / name).touch()
    link = tmp_path / "containers" / "web_default_main-c-1.log"
    link.parent.mkdir()
    link.symlink_to(folder / "1.log")
    found: list[str] = []

    async def remove_container(_: str) -> None:
        found.extend(sorted(file.name for file in folder.iterdir()))
        raise ContainerRuntimeError("no")

    record = ObservedContainer(
        id="c-1", name="main", sandbox_id="s", state=RecordState.EXITED, created_at=1, restart_count=1
    )
    services = types.SimpleNamespace(
        cri=types.SimpleNamespace(remove_container=remove_container),
        state=types.SimpleNamespace(observed=lambda _: Observed(containers=(record,))),
        node=node(log_dir=tmp_path / "pods"),
    )
    action = RemoveContainer(name="main", container_id="c-1", logs=True)
    with pytest.raises(ContainerRuntimeError):
        await Executor(cast("Services", services)).carry_out(action, pod=pod(), handle=cast("Handle", None))
    assert found == ["11.log", "2.log"]
    assert not link.is_symlink()
