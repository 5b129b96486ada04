"""The cgroup file system, pretended by ordinary folders and files (CG-3, CG-7)."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from minikubelet.pods.cgroups import tree as tree_module
from minikubelet.pods.cgroups.tree import CgroupTree
from minikubelet.runtime.mapping.cgroup import CgroupLimits


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    for name in ("cpu,cpuacct", "memory", "cpuset", "systemd", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    (tmp_path / "cpuset/cpuset.cpus").write_text("0-3\n")
    (tmp_path / "cpuset/cpuset.mems").write_text("0\n")
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path / "kubepods"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory pids perf_event\n")
        (folder / "cgroup.subtree_control").write_text("memory\n")
    return tmp_path


def test_cg_3_on_v1_a_pod_has_a_folder_in_every_controller(v1: Path) -> None:
    CgroupTree(v1).make("/kubepods/pod1")
    assert all((v1 / name / "kubepods/pod1").is_dir() for name in ("cpu,cpuacct", "memory", "cpuset", "systemd"))
    assert not (v1 / "unified/kubepods").exists()


def test_on_v1_a_cpuset_that_is_empty_has_its_parents(v1: Path) -> None:
    for folder in (v1 / "cpuset/kubepods", v1 / "cpuset/kubepods/pod1"):
        folder.mkdir()
        (folder / "cpuset.cpus").write_text("\n")
        (folder / "cpuset.mems").write_text("\n")
    (v1 / "cpuset/kubepods/cpuset.cpus").write_text("1-2\n")
    CgroupTree(v1).make("/kubepods/pod1")
    assert (v1 / "cpuset/kubepods/cpuset.mems").read_text() == "0\n"
    assert (v1 / "cpuset/kubepods/pod1/cpuset.cpus").read_text() == "1-2\n"


def test_cg_3_on_v2_every_cgroup_above_hands_its_controllers_down(v2: Path) -> None:
    (v2 / "kubepods/pod1").mkdir()
    CgroupTree(v2).make("/kubepods/pod1")
    assert (v2 / "cgroup.subtree_control").read_text() == "+cpu +pids"
    assert (v2 / "kubepods/cgroup.subtree_control").read_text() == "+cpu +pids"


def test_limits_go_into_files_that_are_there(v1: Path) -> None:
    tree = CgroupTree(v1)
    tree.make("/kubepods")
    (v1 / "cpu/kubepods/cpu.shares").write_text("1024\n")
    tree.limit("/kubepods", CgroupLimits(cpu_shares=7, memory=4096, pids=3))
    assert (v1 / "cpu,cpuacct/kubepods/cpu.shares").read_text() == "7"
    assert not (v1 / "memory/kubepods/memory.limit_in_bytes").exists(), "a file that is missing is not made"


def test_limits_of_one_controller_only(v2: Path) -> None:
    (v2 / "kubepods/cpu.weight").write_text("100\n")
    (v2 / "kubepods/memory.max").write_text("max\n")
    CgroupTree(v2).limit("/kubepods", CgroupLimits(cpu_shares=2, memory=4096), only="memory")
    assert (v2 / "kubepods/cpu.weight").read_text() == "100\n"
    assert (v2 / "kubepods/memory.max").read_text() == "4096"


def test_cg_7_a_pod_goes_with_all_that_is_below_it(v1: Path) -> None:
    tree = CgroupTree(v1)
    tree.make("/kubepods/pod1/container")
    (v1 / "unified/kubepods/pod1").mkdir(parents=True)
    tree.make("/kubepods/pod2")
    assert tree.exists("/kubepods/pod1")
    tree.remove("/kubepods/pod1")
    tree.remove("/kubepods/pod1")  # once more does no harm
    assert not tree.exists("/kubepods/pod1")
    assert (v1 / "memory/kubepods/pod2").is_dir()


def test_cg_7_what_is_left_in_it_is_killed_first(v1: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = subprocess.Popen(["sleep", "60"])
    rounds = iter([{left.pid}, set()])
    monkeypatch.setattr(tree_module, "_processes", lambda _: next(rounds, set()))
    try:
        tree = CgroupTree(v1)
        tree._hierarchies = lambda: iter([v1 / "memory"])  # type: ignore[method-assign]
        tree.remove("/kubepods/pod1")
        assert left.poll() == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()


def test_what_is_in_a_cgroup_is_found_at_every_depth(v1: Path) -> None:
    (v1 / "memory/pod/c").mkdir(parents=True)
    (v1 / "memory/pod/cgroup.procs").write_text("1\n")
    (v1 / "memory/pod/c/cgroup.procs").write_text("22\n333\n")
    assert tree_module._processes(v1 / "memory/pod") == {1, 22, 333}
