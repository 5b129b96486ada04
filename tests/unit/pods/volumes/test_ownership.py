"""fsGroup reaches all that is in a volume, and nothing that a link in it leads to (VO-11)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from minikubelet.pods.volumes.ownership import give_to_group

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another group")

GROUP = 2000


def look(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_gid, stat.S_IMODE(found.st_mode)


@pytest.mark.parametrize(
    ("writable", "folder", "file"),
    [(True, 0o2770, 0o660), (False, 0o2750, 0o640)],
    ids=["VO-11 emptyDir", "VO-11 ours"],
)
def test_a_links_target_keeps_its_group_and_mode(tmp_path: Path, folder: int, file: int, *, writable: bool) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    for top in (outside, volume):
        (top / "deep").mkdir(parents=True)
        (top / "deep" / "file").touch()
        for path in (top, top / "deep"):
            path.chmod(0o700)
        (top / "deep" / "file").chmod(0o600)
    (volume / "to-folder").symlink_to(outside)
    (volume / "deep" / "to-file").symlink_to(outside / "deep" / "file")
    (volume / "loop").symlink_to(".")
    give_to_group(volume, GROUP, writable=writable)
    assert {look(path) for path in (volume, volume / "deep")} == {(GROUP, folder)}
    assert look(volume / "deep" / "file") == (GROUP, file)
    assert {look(path)[0] for path in (volume / "to-folder", volume / "deep" / "to-file", volume / "loop")} == {GROUP}
    assert [look(path) for path in (outside, outside / "deep", outside / "deep" / "file")] == [
        (0, 0o700),
        (0, 0o700),
        (0, 0o600),
    ]
