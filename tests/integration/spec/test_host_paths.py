"""What a pod gets of the host's own files (VO-6)."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spec.conftest import Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def volume(path: Path | str, kind: str) -> dict[str, Any]:
    return {"name": "h", "hostPath": {"path": str(path), "type": kind}}


def mounted(lab: Lab, script: str, path: Path | str, kind: str) -> str:
    return lab.says(script, volumeMounts=[{"name": "h", "mountPath": "/h"}], spec={"volumes": [volume(path, kind)]})


@pytest.fixture
def host(lab: Lab) -> Path:
    """A folder with one of everything, and a link to each."""
    folder = lab.node.base / f"host-{len(list(lab.node.base.glob('host-*')))}"
    (folder / "Directory").mkdir(parents=True)
    (folder / "File").write_text("text\n")
    os.mknod(folder / "CharDevice", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(folder / "BlockDevice", stat.S_IFBLK | 0o600, os.makedev(7, 0))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "Socket"))
    for entry in list(folder.iterdir()):
        (folder / f"link-to-{entry.name}").symlink_to(entry.name)
    return folder


KINDS = {
    "Directory": "directory",
    "File": "regular file",
    "Socket": "socket",
    "CharDevice": "character special file",
    "BlockDevice": "block special file",
}
TEXTS = {
    "Directory": "is not a directory",
    "File": "is not a file",
    "Socket": "is not a socket file",
    "CharDevice": "is not a character device",
    "BlockDevice": "is not a block device",
}


@pytest.mark.parametrize("link", ["", "link-to-"])
@pytest.mark.parametrize("kind", KINDS)
def test_vo_6_what_is_what_it_has_to_be_is_mounted(lab: Lab, host: Path, kind: str, link: str) -> None:
    assert mounted(lab, "stat -c %F /h", host / f"{link}{kind}", kind) == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_vo_6_what_is_not_keeps_the_pod_waiting_until_it_is(lab: Lab, host: Path, kind: str) -> None:
    other = "Directory" if kind != "Directory" else "File"
    name = lab.put(
        containers=[sh("true", volumeMounts=[{"name": "h", "mountPath": "/h"}])], volumes=[volume(host / other, kind)]
    )
    text = f"hostPath type check failed: {host / other} {TEXTS[kind]}"
    assert lab.event(name, "FailedMount") == f'MountVolume.SetUp failed for volume "h" : {text}'
    assert lab.pod(name)["status"]["phase"] == "Pending"
    (host / other).rename(host / "aside")
    (host / kind).rename(host / other)
    lab.comes_to(name, "Succeeded")


def test_vo_6_a_directory_is_made_with_all_above_it_and_never_removed(lab: Lab, host: Path) -> None:
    path = host / "a" / "b"
    mounted(lab, "touch /h/made", path, "DirectoryOrCreate")
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path, path.parent)] == [0o755, 0o755]
    lab.done()
    assert (path / "made").exists()


def test_vo_6_a_file_is_made_empty_without_what_is_above_it(lab: Lab, host: Path) -> None:
    path = host / "new"
    assert mounted(lab, "wc -c </h; echo more >/h", path, "FileOrCreate").strip() == "0"
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()) == (0o644, "more\n")
    mounts = [{"name": "h", "mountPath": "/h"}]
    missing = host / "none" / "new"
    name = lab.put(containers=[sh("true", volumeMounts=mounts)], volumes=[volume(missing, "FileOrCreate")])
    assert str(missing) in lab.event(name, "FailedMount")


def test_vo_6_a_file_is_not_made_where_a_link_leads(lab: Lab, host: Path) -> None:
    """Another pod may have put the link there."""
    (host / "to-nowhere").symlink_to(host / "elsewhere")
    mounts = [{"name": "h", "mountPath": "/h"}]
    name = lab.put(containers=[sh("true", volumeMounts=mounts)], volumes=[volume(host / "to-nowhere", "FileOrCreate")])
    assert lab.event(name, "FailedMount").endswith(f"{host / 'to-nowhere'} is not a file")
    assert not (host / "elsewhere").exists()


def test_vo_6_and_vo_11_the_hosts_files_keep_their_owners(lab: Lab, host: Path) -> None:
    before = (host / "Directory").stat()
    mounts = [{"name": "h", "mountPath": "/h"}]
    spec = {"volumes": [volume(host / "Directory", "")], "securityContext": {"fsGroup": 3000}}
    assert lab.says("stat -c %g:%a /h", volumeMounts=mounts, spec=spec) == "0:755"
    assert (host / "Directory").stat() == before
