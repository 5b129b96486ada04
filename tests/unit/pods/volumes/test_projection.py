"""configMap, secret, downwardAPI and projected volumes on disk and in memory (VO-1, VO-7, VO-11 to VO-14)."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minikubelet.api.configuration import ConfigMap, Secret, with_secret_defaults
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.security import PodSecurityContext
from minikubelet.pods.objects import ObjectStore
from minikubelet.pods.volumes import VolumeError, VolumeManager
from minikubelet.pods.volumes.mounts import below
from minikubelet.pods.volumes.projection import nested_mounts
from tests.unit.runtime.build import container, pod

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

ALLOCATABLE = {"memory": Fraction(8 << 20), "cpu": Fraction(2)}
KINDS: dict[str, dict[str, Any]] = {
    "configmap": {"configMap": {"name": "c"}},
    "secret": {"secret": {"secretName": "s"}},
    "projected": {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
    "downward-api": {"downwardAPI": {"items": [{"path": "k", "fieldRef": {"fieldPath": "metadata.labels['a']"}}]}},
}


def config_map(value: str, name: str = "c") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"k": value})


def secret(value: str) -> Secret:
    meta = ObjectMeta(name="s", namespace="default")
    return with_secret_defaults(Secret(metadata=meta, string_data={"pw": value}))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "root"
    folder.mkdir()
    yield folder
    for point in reversed(below(folder)):
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    store.apply([config_map("one"), secret("hunter2")])
    return store


@pytest.fixture
def manager(root: Path, store: ObjectStore) -> VolumeManager:
    return VolumeManager(root, allocatable=ALLOCATABLE, objects=store)


def of(source: dict[str, Any], *mounts: dict[str, Any], group: int | None = None, labels: Any = None) -> Pod:
    volumes = [{"name": "v", **source}, {"name": "other", "emptyDir": {}}]
    main = container(volumeMounts=mounts or [{"name": "v", "mountPath": "/v"}])
    made = pod(main, volumes=volumes, metadata={"labels": {"a": "b"} if labels is None else labels})
    context = PodSecurityContext(fs_group=group)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, security_context=context))


def content(path: str | Path) -> dict[str, str]:
    return {entry.name: entry.read_text() for entry in Path(path).iterdir() if not entry.name.startswith("..")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def mounted(path: str) -> tuple[str, str]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split(" ")
        if point == path:
            return kind, options
    return "", ""


@needs_root
@pytest.mark.parametrize("kind", KINDS)
async def test_vo_1_and_vo_7_where_a_volume_lies_and_on_what(manager: VolumeManager, root: Path, kind: str) -> None:
    path = (await manager.setup(of(KINDS[kind])))["v"]
    assert path == str(root / f"pods/u-1/volumes/kubernetes.io~{kind}/v")
    if kind == "configmap":
        assert mounted(path) == ("", "")
        assert mode(Path(path)) == 0o777
    else:
        filesystem, options = mounted(path)
        assert filesystem == "tmpfs"
        assert "size=8192k" in options.split(","), "VO-4: the node's memory"
        assert mode(Path(path)) == 0o1777
    assert (root / "pods/u-1/plugins/kubernetes.io~empty-dir/wrapped_v/ready").exists(), "PD-1"


@needs_root
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("configmap", {"k": "one"}),
        ("secret", {"pw": "hunter2"}),
        ("projected", {"k": "one", "pw": "hunter2"}),
        ("downward-api", {"k": "b"}),
    ],
)
async def test_what_is_in_it_and_that_setting_it_up_again_changes_nothing(  # VO-15: projected works, too
    manager: VolumeManager, kind: str, expected: dict[str, str]
) -> None:
    path = (await manager.setup(of(KINDS[kind])))["v"]
    data = (Path(path) / "..data").readlink()
    assert (await manager.setup(of(KINDS[kind])))["v"] == path
    assert content(path) == expected
    assert (Path(path) / "..data").readlink() == data
    assert len(below(Path(path))) == (kind != "configmap")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        (
            {"secret": {"secretName": "s", "items": [{"key": "no", "path": "p"}]}},
            "references non-existent secret key: no",
        ),
    ],
)
async def test_vo_2_what_is_missing_is_the_message_of_failed_mount(
    manager: VolumeManager, root: Path, source: dict[str, Any], message: str
) -> None:
    with pytest.raises(VolumeError) as caught:
        await manager.setup(of(source))
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : {message}'
    assert not (root / "pods").exists()


# ---- VO-13 -------------------------------------------------------------------------------
@needs_root
async def test_vo_13_files_follow_their_objects(manager: VolumeManager, store: ObjectStore) -> None:
    path = (await manager.setup(of(KINDS["projected"])))["v"]
    store.apply([config_map("two"), secret("swordfish")])
    await manager.refresh(of(KINDS["projected"]))
    assert content(path) == {"k": "two", "pw": "swordfish"}


@needs_root
async def test_vo_13_files_follow_the_pods_own_fields(manager: VolumeManager) -> None:
    path = (await manager.setup(of(KINDS["downward-api"])))["v"]
    await manager.refresh(of(KINDS["downward-api"], labels={"a": "changed"}))
    assert content(path) == {"k": "changed"}


async def test_vo_13_what_was_never_set_up_is_not_made(manager: VolumeManager, root: Path) -> None:
    await manager.refresh(of(KINDS["configmap"]))
    assert not (root / "pods").exists()


async def test_vo_13_a_missing_object_is_told_and_leaves_the_files_alone(
    manager: VolumeManager, store: ObjectStore
) -> None:
    path = (await manager.setup(of(KINDS["configmap"])))["v"]
    store.apply([])
    with pytest.raises(VolumeError, match='SetUp failed for volume "v" : configmap "c" not found'):
        await manager.refresh(of(KINDS["configmap"]))
    assert await manager.setup(of(KINDS["configmap"])) == {"v": path}, "a container can still be restarted"
    assert content(path) == {"k": "one"}


async def test_vo_13_an_optional_object_that_goes_takes_its_files_along_once_that_is_certain(
    manager: VolumeManager, store: ObjectStore
) -> None:
    source = {"configMap": {"name": "c", "optional": True}}
    path = (await manager.setup(of(source)))["v"]
    store.apply([], uncertain=True)
    await manager.refresh(of(source))
    assert content(path) == {"k": "one"}
    store.apply([])
    await manager.refresh(of(source))
    assert content(path) == {}


# ---- VO-11 -------------------------------------------------------------------------------
@needs_root
@pytest.mark.parametrize("kind", KINDS)
async def test_vo_11_the_pods_group_owns_files_that_are_ours(manager: VolumeManager, kind: str) -> None:
    path = Path((await manager.setup(of(KINDS[kind], group=3000)))["v"])
    top = path / "..data"
    found = [path, top.resolve(), *(entry.resolve() for entry in top.iterdir())]
    assert {entry.stat().st_gid for entry in found} == {3000}
    assert {entry.stat().st_uid for entry in found} == {0}
    assert {entry.lstat().st_gid for entry in path.iterdir()} == {3000}, "links too"
    assert mode(top.resolve()) == 0o2755
    assert {mode(entry) for entry in top.iterdir()} == {0o644}
    assert mode(path) == (0o2777 if kind == "configmap" else 0o3777)


@needs_root
async def test_vo_11_the_group_can_read_what_only_root_could(manager: VolumeManager, store: ObjectStore) -> None:
    source = {"secret": {"secretName": "s", "defaultMode": 0o400}}
    path = Path((await manager.setup(of(source, group=3000)))["v"])
    assert mode(path / "pw") == 0o440
    store.apply([secret("new")])
    await manager.refresh(of(source, group=3000))
    assert (mode(path / "pw"), (path / "pw").stat().st_gid) == (0o440, 3000)


@needs_root
@pytest.mark.parametrize(("medium", "expected"), [("", 0o2777), ("Memory", 0o3777)])
async def test_vo_11_an_empty_dir_is_the_groups_to_write(manager: VolumeManager, medium: str, expected: int) -> None:
    path = Path((await manager.setup(of({"emptyDir": {"medium": medium}}, group=3000)))["v"])
    assert (path.stat().st_gid, mode(path)) == (3000, expected)
    (path / "file").touch()
    (path / "file").chmod(0o600)
    await manager.setup(of({"emptyDir": {"medium": medium}}, group=3000))
    assert mode(path / "file") == 0o600, "what the pod has made of it stays"


@needs_root
async def test_vo_11_a_host_path_is_never_given_away(manager: VolumeManager, tmp_path: Path) -> None:
    await manager.setup(of({"hostPath": {"path": str(tmp_path)}}, group=3000))
    assert tmp_path.stat().st_gid == 0


# ---- VO-12 -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ({"v": "/etc/app", "other": "/etc/app/data"}, ["data"]),
        ({"v": "/etc/app/", "other": "/etc/app//a/../b"}, ["b"]),
        ({"v": "/etc/app", "other": "/etc/application"}, []),
        ({"v": "/etc/app", "other": "/etc"}, []),
        ({"v": "/", "other": "/a/b"}, ["a/b"]),
        ({"v": "etc", "other": "etc/x"}, ["x"]),
    ],
)
def test_vo_12_which_mounts_lie_within_a_volume(mounts: dict[str, str], expected: list[str]) -> None:
    main = container(volumeMounts=[{"name": name, "mountPath": path} for name, path in mounts.items()])
    assert nested_mounts("v", pod(main)) == expected


async def test_vo_12_a_mount_within_the_volume_finds_a_directory(manager: VolumeManager, store: ObjectStore) -> None:
    mounts = ({"name": "v", "mountPath": "/etc/app"}, {"name": "other", "mountPath": "/etc/app/a/b"})
    path = Path((await manager.setup(of(KINDS["configmap"], *mounts)))["v"])
    assert (path / "a/b").is_dir()
    assert mode(path / "a") == 0o755
    store.apply([config_map("two")])
    await manager.refresh(of(KINDS["configmap"], *mounts))
    assert (path / "a/b").is_dir()


async def test_vo_12_a_file_in_the_place_of_a_mount_is_an_error(manager: VolumeManager) -> None:
    mounts = ({"name": "v", "mountPath": "/etc/app"}, {"name": "other", "mountPath": "/etc/app/k/x"})
    with pytest.raises(VolumeError, match="k/x is to be a mount point, but the volume has a file of its own there"):
        await manager.setup(of(KINDS["configmap"], *mounts))


# ---- VO-14 -------------------------------------------------------------------------------
@needs_root
@pytest.mark.parametrize("kind", KINDS)
async def test_vo_14_nothing_is_left_after_the_teardown(manager: VolumeManager, root: Path, kind: str) -> None:
    path = Path((await manager.setup(of(KINDS[kind])))["v"])
    await manager.teardown("u-1")
    assert below(root) == []
    assert not path.exists()
    await manager.refresh(of(KINDS[kind]))
    assert not path.exists(), "a refresh that comes late makes nothing"
    await manager.remove_pod_dir("u-1")
    assert not (root / "pods/u-1").exists()
