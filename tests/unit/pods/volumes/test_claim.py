"""Claims: directories that outlive their pods, and go only when somebody says so."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from minikubelet.api.claims import PersistentVolumeClaim
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.security import PodSecurityContext
from minikubelet.cli import main
from minikubelet.pods.objects import ObjectStore
from minikubelet.pods.volumes import VolumeError, VolumeManager
from tests.unit.runtime.build import container, made, pod


def claim(name: str = "data") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="default"))


def of(uid: str = "u-1", *, name: str = "data", group: int | None = None) -> Pod:
    inside = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    plain = pod(inside, volumes=volumes, metadata={"uid": uid})
    context = PodSecurityContext(fs_group=group)
    return msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, security_context=context))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    store.apply([claim()])
    return store


@pytest.fixture
def manager(root: Path, store: ObjectStore) -> VolumeManager:
    return VolumeManager(root, objects=store)


def run(*arguments: str, root: Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["claims", *arguments, "--root", str(root)], input=stdin)


async def test_a_claim_is_a_directory_open_to_everyone_in_a_private_folder(manager: VolumeManager, root: Path) -> None:
    path = (await manager.setup(of()))["v"]
    assert path == str(root / "volumes/default/data")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o777
    assert stat.S_IMODE((root / "volumes").stat().st_mode) == 0o750


async def test_what_is_in_it_outlives_its_pod(manager: VolumeManager, root: Path) -> None:
    path = Path((await manager.setup(of()))["v"])
    (path / "file").write_text("kept")
    await manager.remove_pod_dir("u-1")
    assert list((root / "pods").iterdir()) == []
    assert (Path((await manager.setup(of("u-2")))["v"]) / "file").read_text() == "kept"


async def test_a_pod_waits_for_its_claim(manager: VolumeManager, store: ObjectStore) -> None:
    with pytest.raises(VolumeError) as caught:
        await manager.setup(of(name="late"))
    assert str(caught.value) == 'MountVolume.SetUp failed for volume "v" : persistentvolumeclaim "late" not found'
    store.apply([claim("late")])
    assert await manager.setup(of(name="late"))


async def test_a_pod_that_has_it_goes_on_when_the_claims_manifest_goes(
    manager: VolumeManager, store: ObjectStore
) -> None:
    paths = await manager.setup(of())
    store.apply([])
    assert await manager.setup(of()) == paths
    with pytest.raises(VolumeError):
        await manager.setup(of("u-2"))


@pytest.mark.skipif(os.geteuid() != 0, reason="giving away needs root")
async def test_vo_11_the_pods_group_gets_the_directory_and_what_is_in_it_stays_as_it_is(manager: VolumeManager) -> None:
    path = Path((await manager.setup(of()))["v"])
    (path / "file").touch()
    await manager.setup(of("u-2", group=3000))
    assert (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (3000, 0o2777)
    assert (path / "file").stat().st_gid == 0


def test_a_claim_that_says_so_is_mounted_read_only() -> None:
    source: dict[str, Any] = {"claimName": "data", "readOnly": True}
    inside = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    within = pod(inside, volumes=[{"name": "v", "persistentVolumeClaim": source}])
    (mount,) = made(inside, within=within, volumes={"v": "/x"}).mounts
    assert mount.readonly


# ---- the command ---------------------------------------------------------------------
async def test_claims_are_listed_with_who_uses_them(manager: VolumeManager, root: Path) -> None:
    assert run("list", root=root).output == f"No claims below {root}/volumes\n"
    path = Path((await manager.setup(of()))["v"])
    (path / "file").write_bytes(b"x" * 20000)
    head, line = run("list", root=root).output.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "SIZE", "PODS", "DIRECTORY"]
    namespace, name, size, pods, directory = line.split()
    assert (namespace, name, pods, directory) == ("default", "data", "u-1", str(path))
    assert size.endswith("KiB")


async def test_a_claim_in_use_is_not_deleted_and_one_that_is_free_is(manager: VolumeManager, root: Path) -> None:
    path = Path((await manager.setup(of()))["v"])
    (path / "deep/er").mkdir(parents=True)
    (path / "link").symlink_to("/etc")
    refused = run("delete", "data", "--yes", root=root)
    assert refused.exit_code == 1
    assert "in use by these pods: the one with the uid u-1; remove their manifests first" in refused.output
    await manager.teardown("u-1")
    unsure = run("delete", "data", root=root, stdin="n\n")
    assert (unsure.exit_code, path.is_dir()) == (1, True)
    done = run("delete", "default/data", root=root, stdin="y\n")
    assert done.output.splitlines()[-1] == "claim default/data deleted"
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no", "there is no claim default/no below"),
        ("a/..", "is no name of a claim"),
        ("../x", "is no name of a claim"),
    ],
)
def test_what_is_no_claim_is_not_deleted(root: Path, name: str, message: str) -> None:
    result = run("delete", name, "--yes", root=root)
    assert result.exit_code == 1
    assert message in result.output
