"""emptyDir and hostPath: set up, kept, taken down (VO-1 to VO-6, VO-14)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import (
    Container,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
    VolumeMount,
)
from minikubelet.pods.volumes import RETRY, VolumeError, VolumeManager, mounts
from minikubelet.pods.volumes.mounts import below
from minikubelet.pods.volumes.plugin import PluginError, Request

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "root"
    folder.mkdir()
    yield folder
    for point in reversed(below(folder)):
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def manager(root: Path) -> VolumeManager:
    return VolumeManager(root)


def pod(*volumes: Volume, mounted: bool = True, uid: str = "u", requests: dict[str, str] | None = None) -> Pod:
    mounts = tuple(VolumeMount(name=volume.name, mount_path=f"/{volume.name}") for volume in volumes)
    resources = ResourceRequirements(requests=requests or {})
    container = Container(name="main", volume_mounts=mounts if mounted else (), resources=resources)
    return Pod(metadata=ObjectMeta(name="web", uid=uid), spec=PodSpec(containers=(container,), volumes=volumes))


def empty_dir(name: str = "data", *, medium: str = "", size: str | None = None) -> Volume:
    return Volume(name=name, empty_dir=EmptyDirVolumeSource(medium=medium, size_limit=size))


def host_path(path: Path | str, kind: str = "") -> Volume:
    return Volume(name="host", host_path=HostPathVolumeSource(path=str(path), type=kind))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def failure(manager: VolumeManager, volume: Volume) -> str:
    with pytest.raises(VolumeError) as caught:
        await manager.setup(pod(volume))
    start = f'MountVolume.SetUp failed for volume "{volume.name}" : '
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


# ---- which volumes ---------------------------------------------------------------------
async def test_a_volume_that_nothing_mounts_is_skipped_whatever_is_wrong_with_it(manager: VolumeManager) -> None:
    assert await manager.setup(pod(host_path("/a/../b"), mounted=False)) == {}


async def test_a_volume_of_an_init_container_is_set_up(manager: VolumeManager) -> None:
    mount = VolumeMount(name="data", mount_path="/data")
    spec = PodSpec(init_containers=(Container(name="i", volume_mounts=(mount,)),), volumes=(Volume(name="data"),))
    paths = await manager.setup(Pod(metadata=ObjectMeta(name="web", uid="u"), spec=spec))
    assert Path(paths["data"]).is_dir(), "VO-1: without any source it is an emptyDir"


async def test_a_further_kind_of_volume_is_one_more_function(root: Path) -> None:
    def set_up(request: Request) -> str:
        if request.volume.name != "good":
            raise PluginError("no such thing")
        return f"/made/for/{request.pod.metadata.uid}"

    manager = VolumeManager(root, plugins={"host_path": set_up})
    good = Volume(name="good", host_path=HostPathVolumeSource(path="/"))
    assert await manager.setup(pod(good)) == {"good": "/made/for/u"}
    assert await failure(manager, host_path("/")) == "no such thing"


async def test_a_cancelled_setup_has_ended_before_its_caller(root: Path) -> None:
    under_way, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(_request: Request) -> str:
        under_way.set()
        go_on.wait(5)
        done.append("setup")
        return ""

    manager = VolumeManager(root, plugins={"host_path": slow})
    task = asyncio.create_task(manager.setup(pod(host_path("/"))))
    await asyncio.to_thread(under_way.wait, 5)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["setup"]


def test_how_long_to_wait_before_the_next_try() -> None:
    assert (RETRY.initial, RETRY.factor, RETRY.maximum) == (0.5, 2.0, 122.0)


# ---- emptyDir on disk ------------------------------------------------------------------
async def test_vo_3_an_empty_dir_is_open_to_everyone_in_a_private_folder(manager: VolumeManager, root: Path) -> None:
    before = os.umask(0o077)
    try:
        path = Path((await manager.setup(pod(empty_dir())))["data"])
    finally:
        os.umask(before)
    assert path == root / "pods" / "u" / "volumes" / "kubernetes.io~empty-dir" / "data"
    assert mode(path) == 0o777
    assert mode(path.parent) == 0o755
    assert mode(root / "pods" / "u") == 0o750
    assert (root / "pods" / "u" / "plugins" / "kubernetes.io~empty-dir" / "data" / "ready").exists()


async def test_vo_3_what_is_in_it_survives_a_second_setup(manager: VolumeManager) -> None:
    path = Path((await manager.setup(pod(empty_dir())))["data"])
    (path / "file").write_text("kept")
    path.chmod(0o700)
    assert await manager.setup(pod(empty_dir())) == {"data": str(path)}
    assert (path / "file").read_text() == "kept"
    assert mode(path) == 0o700, "what the pod has made of it stays"


async def test_an_unknown_medium(manager: VolumeManager) -> None:
    assert await failure(manager, empty_dir(medium="Tape")) == 'unknown storage medium "Tape"'


# ---- emptyDir in memory -----------------------------------------------------------------
def mounted(path: str) -> tuple[str, str]:
    """File system type and options of what is mounted there."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split(" ")
        if point == path:
            return kind, options
    return "", ""


@needs_root
@pytest.mark.parametrize(
    ("node", "pod_limit", "size", "kilobytes"),
    [
        pytest.param(0, 0, "64Mi", 65536, id="VO-4 sizeLimit"),
        pytest.param(32 << 20, 0, "64Mi", 32768, id="VO-4 the node's memory"),
        pytest.param(32 << 20, 16 << 20, "64Mi", 16384, id="VO-4 the pod's limit"),
        pytest.param(32 << 20, 0, None, 32768, id="VO-4 without sizeLimit"),
        pytest.param(32 << 20, 0, "0", 32768, id="VO-4 a sizeLimit of 0 is none"),
    ],
)
async def test_an_empty_dir_in_memory_has_the_smallest_of_its_limits(
    root: Path, node: int, pod_limit: int, size: str | None, kilobytes: int
) -> None:
    manager = VolumeManager(root, allocatable={"memory": Fraction(node)}, memory_limit=lambda _: pod_limit)
    paths = await manager.setup(pod(empty_dir(medium="Memory", size=size)))
    kind, options = mounted(paths["data"])
    assert kind == "tmpfs"
    assert f"size={kilobytes}k" in options.split(",")
    assert mode(Path(paths["data"])) == 0o1777
    await manager.teardown("u")
    assert mounted(paths["data"]) == ("", "")


@pytest.mark.parametrize(("code", "tries"), [(errno.EINVAL, 2), (errno.EPERM, 1)])
async def test_a_kernel_that_cannot_keep_it_out_of_swap_is_asked_again_without(
    manager: VolumeManager, monkeypatch: pytest.MonkeyPatch, code: int, tries: int
) -> None:
    asked: list[str] = []

    def mount(_filesystem: str, _target: Path, *, options: str) -> None:
        asked.append(options)
        if "noswap" in options:
            raise OSError(code, "no")

    monkeypatch.setattr(mounts, "mount", mount)
    with contextlib.suppress(VolumeError):
        await manager.setup(pod(empty_dir(medium="Memory", size="1Mi")))
    assert asked == ["size=1048576,noswap", "size=1048576"][:tries]


@needs_root
async def test_a_memory_volume_is_mounted_once_and_again_after_a_reboot(manager: VolumeManager, root: Path) -> None:
    volume = empty_dir(medium="Memory", size="1Mi")
    path = Path((await manager.setup(pod(volume)))["data"])
    (path / "file").write_text("kept")
    await manager.setup(pod(volume))
    assert below(root) == [path]
    assert (path / "file").exists()
    subprocess.run(["umount", path], check=True)  # as a reboot does
    await manager.setup(pod(volume))
    assert below(root) == [path]


async def test_huge_pages_must_be_requested(manager: VolumeManager) -> None:
    assert "requests hugepages-2Mi" in await failure(manager, empty_dir(medium="HugePages-2Mi"))
    assert "exactly one size" in await failure(manager, empty_dir(medium="HugePages"))


@needs_root
@pytest.mark.parametrize("medium", ["HugePages", "HugePages-2Mi"])
async def test_huge_pages_of_the_size_that_the_pod_asks_for(manager: VolumeManager, medium: str) -> None:
    if "hugetlbfs" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no huge pages")
    paths = await manager.setup(pod(empty_dir(medium=medium), requests={"hugepages-2Mi": "4Mi"}))
    kind, options = mounted(paths["data"])
    assert kind == "hugetlbfs"
    assert "pagesize=2M" in options.split(",")
    await manager.teardown("u")


# ---- hostPath ---------------------------------------------------------------------------
@pytest.fixture
def things(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "things"
    (folder / "Directory").mkdir(parents=True)
    (folder / "File").write_text("")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "Socket"))
        (folder / "CharDevice").symlink_to("/dev/null")
        yield folder


TEXTS = {
    "Directory": "is not a directory",
    "File": "is not a file",
    "Socket": "is not a socket file",
    "CharDevice": "is not a character device",
    "BlockDevice": "is not a block device",
}


@pytest.mark.parametrize("wanted", TEXTS)
@pytest.mark.parametrize("found", ["Directory", "File", "Socket", "CharDevice", "missing"])
async def test_each_type_takes_only_its_own(manager: VolumeManager, things: Path, wanted: str, found: str) -> None:
    volume = host_path(things / found, wanted)
    if wanted == found:
        assert await manager.setup(pod(volume)) == {"host": str(things / found)}
    else:
        text = f"hostPath type check failed: {things / found} {TEXTS[wanted]}"
        assert await failure(manager, volume) == text


async def test_without_a_type_nothing_is_checked_and_nothing_created(manager: VolumeManager, things: Path) -> None:
    assert await manager.setup(pod(host_path(things / "missing"))) == {"host": str(things / "missing")}
    assert not (things / "missing").exists()


async def test_a_directory_is_created_with_its_parents(manager: VolumeManager, things: Path) -> None:
    volume = host_path(things / "new" / "deep", "DirectoryOrCreate")
    for _ in range(2):
        assert await manager.setup(pod(volume)) == {"host": str(things / "new" / "deep")}
    assert mode(things / "new" / "deep") == 0o755


async def test_a_file_is_created_without_its_parents(manager: VolumeManager, things: Path) -> None:
    await manager.setup(pod(host_path(things / "new", "FileOrCreate")))
    assert (mode(things / "new"), (things / "new").stat().st_size) == (0o644, 0)
    assert "No such file or directory" in await failure(manager, host_path(things / "no" / "new", "FileOrCreate"))


@pytest.mark.parametrize(
    ("kind", "found", "text"),
    [("DirectoryOrCreate", "File", "is not a directory"), ("FileOrCreate", "Directory", "is not a file")],
)
async def test_what_is_there_is_checked_and_not_replaced(
    manager: VolumeManager, things: Path, kind: str, found: str, text: str
) -> None:
    path = things / found
    assert await failure(manager, host_path(path, kind)) == f"hostPath type check failed: {path} {text}"


@pytest.mark.parametrize("path", ["/a/../b", "..", "/a/.."])
async def test_a_path_may_not_go_up(manager: VolumeManager, path: str) -> None:
    assert await failure(manager, host_path(path)) == f"invalid HostPath `{path}`: must not contain '..'"


async def test_two_dots_inside_a_name_are_fine(manager: VolumeManager) -> None:
    assert await manager.setup(pod(host_path("/a..b/..c"))) == {"host": "/a..b/..c"}


# ---- teardown ----------------------------------------------------------------------------
async def test_teardown_leaves_what_is_still_of_use_of_a_finished_pod(
    manager: VolumeManager, root: Path, things: Path
) -> None:
    wanted = pod(empty_dir(), host_path(things))
    path = Path((await manager.setup(wanted))["data"])
    (path / "file").write_text("x")
    hosts = Path(await manager.write_hosts("u", "x"))
    last_words = await manager.termination_log("u", "main")
    await manager.teardown("u")
    left = sorted(str(it.relative_to(root / "pods" / "u")) for it in (root / "pods" / "u").rglob("*"))
    assert left == sorted(
        [
            "containers",
            "containers/main",
            f"containers/main/{Path(last_words or '').name}",
            hosts.name,
            "volumes",
            "volumes/kubernetes.io~empty-dir",
        ]
    )
    assert (things / "File").exists(), "VO-6: never removed"
    await manager.teardown("u")


async def test_a_volume_is_empty_when_it_is_set_up_after_a_teardown(manager: VolumeManager) -> None:
    path = Path((await manager.setup(pod(empty_dir())))["data"])
    (path / "file").write_text("x")
    await manager.teardown("u")
    await manager.setup(pod(empty_dir()))
    assert list(path.iterdir()) == []


async def test_removing_a_pod_leaves_nothing_of_it_and_all_of_others(manager: VolumeManager, root: Path) -> None:
    await manager.setup(pod(empty_dir(), uid="u"))
    await manager.setup(pod(empty_dir(), uid="v"))
    await manager.write_hosts("u", "x")
    assert sorted(await manager.pod_dirs()) == ["u", "v"]
    await manager.remove_pod_dir("u")
    await manager.remove_pod_dir("u")
    assert await manager.pod_dirs() == ["v"]
    assert (root / "pods" / "v" / "volumes").exists()


async def test_before_the_first_pod_there_is_none(tmp_path: Path) -> None:
    manager = VolumeManager(tmp_path / "root")
    assert await manager.pod_dirs() == []
    await manager.remove_pod_dir("u")


@needs_root
async def test_a_volume_in_use_stops_the_teardown_and_it_can_be_repeated(manager: VolumeManager, root: Path) -> None:
    path = Path((await manager.setup(pod(empty_dir(), empty_dir("fast", medium="Memory"))))["fast"])
    with (path / "file").open("w"):
        with pytest.raises(VolumeError, match=re.compile(r"UnmountVolume.TearDown failed for pod u : .*busy")):
            await manager.remove_pod_dir("u")
        assert (root / "pods" / "u" / "volumes" / "kubernetes.io~empty-dir" / "data").exists()
    await manager.remove_pod_dir("u")
    assert await manager.pod_dirs() == []


@needs_root
async def test_what_somebody_else_has_mounted_in_a_volume_is_never_touched(
    manager: VolumeManager, root: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep me")
    path = Path((await manager.setup(pod(empty_dir())))["data"])
    (path / "mounted").mkdir()
    subprocess.run(["mount", "--bind", precious, path / "mounted"], check=True)
    with pytest.raises(VolumeError, match="data/mounted is a mount point"):
        await manager.remove_pod_dir("u")
    assert (precious / "file").read_text() == "keep me"
    subprocess.run(["umount", path / "mounted"], check=True)
    await manager.remove_pod_dir("u")
    assert await manager.pod_dirs() == []


async def test_an_unsafe_uid_gets_nowhere(manager: VolumeManager) -> None:
    with pytest.raises(VolumeError, match=re.escape("'../../etc' cannot be the name of a file")):
        await manager.setup(pod(empty_dir(), uid="../../etc"))
