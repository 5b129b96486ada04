"""Ranges of user ids for pods with a user namespace of their own (SB-11)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minikubelet.api.pod import Pod
from minikubelet.pods.users import UserRanges
from minikubelet.runtime.mapping import NodeContext, RuntimeClassError
from tests.unit.runtime.build import node, pod


def able(root: Path, **changes: Any) -> NodeContext:
    return node(root_dir=root, user_namespaces=frozenset({"", "runsc"}), **changes)


def isolated(uid: str, **spec: Any) -> Pod:
    return pod(metadata={"uid": uid}, hostUsers=False, **spec)


async def test_sb_11_each_pod_has_a_range_of_its_own_that_it_keeps(tmp_path: Path) -> None:
    ranges = UserRanges(able(tmp_path))
    assert [await ranges.first_id(isolated(uid)) for uid in ("a", "b", "a")] == [65536, 131072, 65536]
    assert await UserRanges(able(tmp_path)).first_id(isolated("b")) == 131072, "also for the next daemon"


async def test_sb_11_the_range_is_written_down_as_the_kubelet_does(tmp_path: Path) -> None:
    await UserRanges(able(tmp_path)).first_id(isolated("a"))
    mapping = [{"hostId": 65536, "containerId": 0, "length": 65536}]
    written = json.loads((tmp_path / "pods/a/userns").read_text())
    assert written == {"uidMappings": mapping, "gidMappings": mapping}


async def test_a_range_is_free_again_when_its_pod_is_gone(tmp_path: Path) -> None:
    ranges = UserRanges(able(tmp_path))
    for uid in ("a", "b"):
        await ranges.first_id(isolated(uid))
    (tmp_path / "pods/a/userns").unlink()
    assert await ranges.first_id(isolated("c")) == 65536


async def test_a_file_that_cannot_be_understood_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "pods/a").mkdir(parents=True)
    (tmp_path / "pods/a/userns").write_text("{half")
    assert await UserRanges(able(tmp_path)).first_id(isolated("a")) == 65536


@pytest.mark.parametrize("of", [pod(), isolated("a", runtimeClassName="plain")])
async def test_a_pod_with_the_hosts_users_or_a_runtime_without_namespaces_has_none(tmp_path: Path, of: Pod) -> None:
    at = able(tmp_path, runtime_classes={"plain": "runc-old"})
    assert await UserRanges(at).first_id(of) is None
    assert not (tmp_path / "pods").exists()


async def test_the_handler_of_the_runtime_class_decides(tmp_path: Path) -> None:
    at = able(tmp_path, runtime_classes={"gvisor": "runsc"})
    assert await UserRanges(at).first_id(isolated("a", runtimeClassName="gvisor")) == 65536
    with pytest.raises(RuntimeClassError, match='RuntimeClass "kata" not found'):
        await UserRanges(at).first_id(isolated("a", runtimeClassName="kata"))
