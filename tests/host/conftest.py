"""A guest with minikubelet installed in it the way README.md says, from wheels, as it reaches no network."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.machine import Machine
from tests.support.images import BUSYBOX, PAUSE, Image, write_archive

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and all it needs, for the system's Python."""
    folder = tmp_path_factory.mktemp("wheels")
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(venv)], check=True)
    build = [str(venv / "bin/pip"), "wheel", "--quiet", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    return folder


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """busybox:1.36 and a pause image under the name that the host's containerd asks for."""
    dump = subprocess.run(["containerd", "config", "dump"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"(?m)^\s*sandbox(?:_image)? = ['\"]([^'\"]+)['\"]", dump)
    assert found, "containerd config dump names no sandbox image"
    pause = Image(names=(found[1],), entrypoint=PAUSE.entrypoint)
    return write_archive(tmp_path_factory.mktemp("images") / "images.tar", (BUSYBOX, pause))


@pytest.fixture
def bare(wheels: Path, archive: Path) -> Iterator[Machine]:
    """A booted guest with containerd and images, without minikubelet. Wheels are in /wheels."""
    machine = Machine()
    try:
        machine.create()
        _prepare(machine, wheels)
        machine.boot()
        _load_images(machine, archive)
        yield machine
    finally:
        machine.destroy()


@pytest.fixture(scope="module")
def installed(wheels: Path, archive: Path) -> Iterator[Machine]:
    """One guest with minikubelet, shared by a module: each test has its own pods and leaves the daemon running."""
    machine = Machine()
    try:
        machine.create()
        _prepare(machine, wheels)
        machine.boot()
        _load_images(machine, archive)
        install(machine)
        yield machine
    finally:
        machine.destroy()


def install(machine: Machine, *options: str, check: bool = True) -> str:
    return machine.shell(f"{ROOT}/scripts/install --wheels /wheels {' '.join(options)} 2>&1", check=check, timeout=300)


def _prepare(machine: Machine, wheels: Path) -> None:
    target = machine.root / "wheels"
    target.mkdir()
    for wheel in wheels.glob("*.whl"):
        (target / wheel.name).write_bytes(wheel.read_bytes())
    # A guest may lack CAP_SYS_RESOURCE, which hosts have: no container shall ask for a lower score than containerd's.
    (machine.root / "etc/containerd/config.toml").write_text("""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
""")


def _load_images(machine: Machine, archive: Path) -> None:
    (machine.root / "images.tar").write_bytes(archive.read_bytes())
    machine.run("ctr", "-n", "k8s.io", "images", "import", "/images.tar")
