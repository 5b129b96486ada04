from __future__ import annotations

import os
import socket
from fractions import Fraction
from pathlib import Path

import pytest

from minikubelet.runtime.host import node_context
from minikubelet.runtime.mapping import NodeContext, SwapControl
from minikubelet.runtime.socket_check import socket_finding


@pytest.fixture
def sysroot(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       24683656 kB\nMemFree:  1 kB\n")
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    return tmp_path


def _look(sysroot: Path, node_ip: str = "10.0.0.1") -> NodeContext:
    return node_context(
        node_name="n",
        root_dir=Path("/r"),
        log_dir=Path("/l"),
        systemd_cgroups=False,
        node_ip=node_ip,
        sysroot=sysroot,
    )


def test_memory_is_memtotal_in_bytes(sysroot: Path) -> None:
    assert _look(sysroot).memory_capacity == 24683656 * 1024


def test_a_bare_host_has_neither_swap_control_nor_huge_pages(sysroot: Path) -> None:
    found = _look(sysroot)
    assert not found.cgroup_v2
    assert found.swap_control is SwapControl.NONE
    assert found.hugepage_sizes == ()
    assert found.thermal_throttle_paths == ()


def test_mt_2_selinux_is_on_where_its_file_system_is_mounted(sysroot: Path) -> None:
    assert not _look(sysroot).se_linux
    (sysroot / "sys/fs/selinux").mkdir()
    (sysroot / "sys/fs/selinux/enforce").write_text("0")
    assert _look(sysroot).se_linux


def test_lr_5_swap_control_of_cgroup_v1(sysroot: Path) -> None:
    (sysroot / "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes").touch()
    assert _look(sysroot).swap_control is SwapControl.MEMSW


def test_lr_5_swap_control_of_cgroup_v2(sysroot: Path) -> None:
    (sysroot / "sys/fs/cgroup/cgroup.controllers").touch()
    assert _look(sysroot).swap_control is SwapControl.NONE
    (sysroot / "sys/fs/cgroup/init.scope").mkdir()
    (sysroot / "sys/fs/cgroup/init.scope/memory.swap.max").touch()
    found = _look(sysroot)
    assert found.cgroup_v2
    assert found.swap_control is SwapControl.SWAP_MAX


def test_lr_7_huge_page_sizes_as_the_kernel_names_them(sysroot: Path) -> None:
    for size in ("1048576kB", "2048kB", "64kB"):
        folder = sysroot / f"sys/kernel/mm/hugepages/hugepages-{size}"
        folder.mkdir(parents=True)
        (folder / "nr_hugepages").write_text("0\n")
    assert _look(sysroot).hugepage_sizes == ("64KB", "2MB", "1GB")


def test_sc_8_thermal_throttle_files_of_the_cpus_that_have_them(sysroot: Path) -> None:
    (sysroot / "sys/devices/system/cpu/cpu0/thermal_throttle").mkdir(parents=True)
    (sysroot / "sys/devices/system/cpu/cpu1").mkdir(parents=True)
    (sysroot / "sys/devices/system/cpu/cpufreq/thermal_throttle").mkdir(parents=True)
    assert _look(sysroot).thermal_throttle_paths == ("/sys/devices/system/cpu/cpu0/thermal_throttle",)


def test_the_address_is_found_out_if_it_is_not_given(sysroot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unroutable(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(f"{address}: network is unreachable")

    assert _look(sysroot).node_ip == "10.0.0.1"
    monkeypatch.setattr(socket, "socket", Unroutable)
    assert _look(sysroot, node_ip="").node_ip == ""


def test_a_socket_that_does_not_exist(tmp_path: Path) -> None:
    finding = socket_finding(f"unix://{tmp_path}/no.sock")
    assert finding is not None
    assert finding.problem == f"containerd's socket {tmp_path}/no.sock does not exist"
    assert "systemctl start containerd" in finding.remedy
    assert str(finding) == f"{finding.problem} -- {finding.remedy}"


def test_a_file_that_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = socket_finding(str(tmp_path / "file"))
    assert finding is not None
    assert finding.problem.endswith("is not a socket")


def test_a_socket_nobody_listens_on_and_one_somebody_does(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        finding = socket_finding(str(path))
        assert finding is not None
        assert finding.problem.startswith("nothing listens on")
        server.listen()
        assert socket_finding(str(path)) is None


def test_a_socket_that_is_not_ours_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied", address)

    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        monkeypatch.setattr(socket, "socket", Forbidden)
        finding = socket_finding(str(path))
    assert finding is not None
    assert finding.remedy == "run as root"


def test_ad_5_pods_can_have_all_but_what_the_node_keeps_for_itself(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:        1048576 kB\n")
    found = node_context(
        node_name="n",
        root_dir=tmp_path / "not/made/yet",
        log_dir=tmp_path,
        systemd_cgroups=False,
        node_ip="10.0.0.1",
        sysroot=tmp_path,
    )
    size = os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    assert found.allocatable == {
        "cpu": os.cpu_count(),
        "memory": (1024 - 100) << 20,
        "ephemeral-storage": Fraction(9 * size, 10),
    }
