"""What containers have left behind is removed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikubelet.pods.volumes.mounts import below
from minikubelet.pods.volumes.removal import ForeignMountError, remove_tree

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "precious").write_text("keep me")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tree"
    folder.mkdir()
    yield folder
    for point in reversed(below(folder)):
        subprocess.run(["umount", point], check=True)


def test_a_tree_goes_with_all_in_it(tree: Path) -> None:
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "file").write_text("x")
    (tree / "a" / "b" / "locked").mkdir(mode=0)
    os.mkfifo(tree / "fifo")
    (tree / os.fsdecode(b"no utf-8 \xff")).write_text("x")
    remove_tree(tree)
    assert not tree.exists()


def test_what_is_not_there_is_no_problem(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")
    remove_tree(tmp_path / "no" / "parent")


def test_links_are_removed_and_not_followed(tree: Path, elsewhere: Path) -> None:
    (tree / "to-directory").symlink_to(elsewhere)
    (tree / "to-file").symlink_to(elsewhere / "precious")
    (tree / "loop").symlink_to(".")
    (tree / "dangling").symlink_to("nowhere")
    remove_tree(tree)
    assert not tree.exists()
    assert (elsewhere / "precious").read_text() == "keep me"


def test_a_link_in_the_place_of_the_tree_is_refused(tmp_path: Path, elsewhere: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        remove_tree(link)
    assert (elsewhere / "precious").exists()


@pytest.fixture
def fast_tree() -> Iterator[Path]:
    """In memory, where a directory costs no write to a journal."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_tree_deeper_than_any_stack_goes_too(fast_tree: Path) -> None:
    fd = os.open(fast_tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(os.open("file", os.O_CREAT, dir_fd=fd))
    os.close(fd)
    remove_tree(fast_tree)
    assert not fast_tree.exists()


@needs_root
def test_another_file_system_inside_is_left_alone(tree: Path) -> None:
    (tree / "a" / "mounted").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tree / "a" / "mounted"], check=True)
    (tree / "a" / "mounted" / "precious").write_text("keep me")
    with pytest.raises(ForeignMountError, match="a/mounted is a mount point"):
        remove_tree(tree)
    assert (tree / "a" / "mounted" / "precious").read_text() == "keep me"


@needs_root
def test_a_bind_mount_of_the_same_file_system_is_left_alone(tree: Path, elsewhere: Path) -> None:
    (tree / "bound").mkdir()
    subprocess.run(["mount", "--bind", elsewhere, tree / "bound"], check=True)
    assert tree.stat().st_dev == (tree / "bound").stat().st_dev, "the device number does not tell"
    with pytest.raises(ForeignMountError, match="bound is a mount point"):
        remove_tree(tree)
    assert (elsewhere / "precious").read_text() == "keep me"


@needs_root
def test_a_mount_in_the_place_of_the_tree_is_left_alone(tree: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "none", tree], check=True)
    (tree / "precious").write_text("keep me")
    with pytest.raises(ForeignMountError):
        remove_tree(tree)
    assert (tree / "precious").exists()


@needs_root
def test_mount_points_with_odd_names_are_listed(tmp_path: Path) -> None:
    point = tmp_path / "a b\\c"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
    try:
        assert below(tmp_path) == [point]
        assert below(tmp_path / "a") == []
    finally:
        subprocess.run(["umount", point], check=True)
