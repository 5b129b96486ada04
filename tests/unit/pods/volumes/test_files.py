"""The layout on disk, and the files every container has (PD-1, MT-4, MT-6)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikubelet.pods.volumes.files import create_termination_log, make_directory, write_shared
from minikubelet.pods.volumes.layout import Layout, UnsafeNameError
from minikubelet.pods.volumes.manager import VolumeManager


@pytest.fixture(autouse=True)
def odd_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_where_things_lie() -> None:
    layout = Layout(Path("/var/lib/minikubelet"))
    root = "/var/lib/minikubelet/pods/u-1"
    assert {
        "etc-hosts": str(layout.etc_hosts("u-1")),
        "container": str(layout.container("u-1", "main")),
        "volume": str(layout.volume("u-1", "kubernetes.io~empty-dir", "data")),
        "subpaths": str(layout.subpaths("u-1")),
        "mark": str(layout.ready_mark("u-1", "kubernetes.io~empty-dir", "data")),
    } == {
        "etc-hosts": f"{root}/etc-hosts",
        "container": f"{root}/containers/main",
        "volume": f"{root}/volumes/kubernetes.io~empty-dir/data",
        "subpaths": f"{root}/volume-subpaths",
        "mark": f"{root}/plugins/kubernetes.io~empty-dir/data/ready",
    }


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc", "/etc", "a\0b"])
def test_a_uid_or_name_that_leads_elsewhere_is_refused(name: str) -> None:
    layout = Layout(Path("/var/lib/minikubelet"))
    with pytest.raises(UnsafeNameError):
        layout.pod(name)
    with pytest.raises(UnsafeNameError):
        layout.volume("u", "kubernetes.io~empty-dir", name)


def test_directories_have_exactly_their_mode_and_keep_it(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b", 0o777)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o750, 0o777)
    make_directory(tmp_path / "a", 0o700)
    assert mode(tmp_path / "a") == 0o750


async def test_the_hosts_file_is_readable_by_all_and_keeps_its_inode(tmp_path: Path) -> None:
    manager = VolumeManager(tmp_path)
    path = Path(await manager.write_hosts("u", "127.0.0.1\tlocalhost\nlonger than the next\n"))
    assert path == tmp_path / "pods" / "u" / "etc-hosts"
    assert (mode(path), mode(path.parent)) == (0o644, 0o750)
    inode = path.stat().st_ino
    await manager.write_hosts("u", "short\n")
    assert path.read_text() == "short\n"
    assert path.stat().st_ino == inode, "MT-4: running containers have this very file mounted"


def test_a_shared_file_that_is_right_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "etc-hosts"
    write_shared(path, "same\n")
    os.utime(path, ns=(1, 1))
    write_shared(path, "same\n")
    assert path.stat().st_mtime_ns == 1
    write_shared(path, "same\nand more\n")
    assert path.stat().st_mtime_ns != 1


async def test_each_termination_log_is_a_new_file_for_everyone(tmp_path: Path) -> None:
    manager = VolumeManager(tmp_path)
    first = await manager.termination_log("u", "main")
    paths = [first, await manager.termination_log("u", "main", in_use=[str(first)])]
    assert paths[0] != paths[1]
    for path in map(Path, filter(None, paths)):
        assert path.parent == tmp_path / "pods" / "u" / "containers" / "main"
        assert re.fullmatch("[0-9a-f]{8}", path.name)
        assert (mode(path), mode(path.parent), path.stat().st_size) == (0o666, 0o750, 0)


async def test_a_container_goes_without_termination_log_if_it_must(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("in the way")
    assert await VolumeManager(tmp_path).termination_log("u", "main") is None
    with pytest.raises(OSError, match=r"Not a directory|exists"):
        create_termination_log(tmp_path / "pods" / "u", in_use=())


async def test_mt_6_files_that_no_container_has_go_with_the_next_attempt(tmp_path: Path) -> None:
    manager = VolumeManager(tmp_path)
    other = await manager.termination_log("u", "other")
    made = [await manager.termination_log("u", "main") for _ in range(2)]
    last = await manager.termination_log("u", "main", in_use=[str(made[1])])
    assert {str(path) for path in (tmp_path / "pods/u/containers/main").iterdir()} == {made[1], last}
    assert Path(str(other)).exists()
