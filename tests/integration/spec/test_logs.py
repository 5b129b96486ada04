"""Logs that grow are put aside while the container writes on (LG-1, LG-2)."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh
from tests.support.images import BUSYBOX, PAUSE
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}\S+ stdout F line (\d+) x*$")
ASIDE = re.compile(r"0\.log\.\d{8}-\d{6}")
#: Writes as many lines of 1000 bytes each time it is told to.
WRITE = (
    "pad=$(printf '%0980d' 0 | tr 0 x); n=0; "
    "while :; do if [ -e /go/go ]; then rm /go/go; "
    "for i in $(seq 200); do n=$((n+1)); echo line $n $pad; done; fi; sleep 0.1; done"
)


@pytest.fixture
def lab() -> Iterator[Lab]:
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    if os.geteuid() or not shutil.which(binary):
        pytest.skip("needs root and containerd")
    node = PrivateNode(containerd=binary)
    try:
        node.configure("containerLogMaxSize: 100Ki\ncontainerLogMaxFiles: 3\n")
        node.create(images=(BUSYBOX, PAUSE))
        node.start()
        yield Lab(node)
    finally:
        node.destroy()
    assert node.leftovers() == []


def numbers(path: Path) -> list[int]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    lines = text.splitlines()
    assert all(LINE.match(line) for line in lines)
    return [int(found[1]) for line in lines if (found := LINE.match(line))]


def test_lg_2_a_log_is_put_aside_packed_and_in_the_end_removed(lab: Lab) -> None:
    go = lab.node.base / "go"
    go.mkdir()
    volumes = [{"name": "go", "hostPath": {"path": str(go)}}]
    mounts = [{"name": "go", "mountPath": "/go"}]
    # The other container's small log is left alone.
    containers = [sh(WRITE, volumeMounts=mounts), sh("echo once; " + FOREVER, name="quiet")]
    name = lab.put(containers=containers, volumes=volumes)
    lab.comes_to(name, "Running")
    (folder,) = lab.node.logs.glob(f"*_{name}_*")

    def aside() -> list[str]:
        """Those that are not packed."""
        return [path.name for path in (folder / "main").iterdir() if ASIDE.fullmatch(path.name)]

    seen: list[str] = []
    for round_ in range(1, 4):
        (go / "go").touch()

        def another(before: tuple[str, ...] = tuple(seen)) -> bool:
            return any(name not in before for name in aside())

        lab.until(f"the log was put aside {round_} times", another)
        seen = aside()
    packed, plain = sorted((folder / "main").glob("0.log.*"))
    assert (packed.suffix, [plain.name]) == (".gz", seen)
    lab.until("all is written", lambda: [*numbers(plain), *numbers(folder / "main/0.log")][-1] == 600)
    # What the container wrote is there without a gap, up to what was removed.
    kept = [*numbers(packed), *numbers(plain), *numbers(folder / "main/0.log")]
    assert kept == list(range(kept[0], 601))
    assert kept[0] > 1
    assert [path.name for path in (folder / "quiet").iterdir()] == ["0.log"]
    (link,) = (lab.node.logs.parent / "containers").glob(f"{name}_default_main-*.log")
    assert link.resolve() == (folder / "main/0.log").resolve()
    lab.done()
    lab.until("its logs are gone", lambda: not folder.exists())
