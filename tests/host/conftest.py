"""A guest with minikubelet installed in it the way README.md says, from wheels, as it reaches no network."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.host.machine import Machine
from tests.support.images import BUSYBOX, PAUSE, Image, write_archive

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
#: Where the guest has what a checkout holds of use to an administrator.
CHECKOUT = "/checkout"


class Host(Machine):
    """A guest on which minikubelet is or will be installed: the words that tests of it need."""

    def drop(self, pod: Json) -> None:
        folder = self.root / "etc/minikubelet/manifests"
        fresh = folder / f".{pod['metadata']['name']}.new"
        fresh.write_text(json.dumps(pod))
        fresh.rename(folder / f"{pod['metadata']['name']}.yaml")

    def remove(self, name: str) -> None:
        """Take a pod's manifest away and wait for the pod's end."""
        self.run("rm", f"/etc/minikubelet/manifests/{name}.yaml")
        self.until(f"the end of {name}", lambda: self.pod(name) is None)

    def pods(self) -> list[Json]:
        """What the daemon's /pods shows; raises AssertionError while it does not answer."""
        fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10255/pods', timeout=5).read().decode())"
        return json.loads(self.run("/usr/bin/python3", "-c", fetch)).get("items") or []

    def pod(self, name: str) -> Json | None:
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def until_running(self, name: str) -> Json:
        """Wait until the pod is Ready; the pod as it is then."""

        def ready() -> Json | None:
            pod = self.pod(name) or {}
            conditions = pod.get("status", {}).get("conditions", [])
            return pod if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else None

        found: Json = self.until(f"{name} Ready", ready)
        return found

    def daemon(self) -> str:
        """The daemon's process id, "0" when there is none."""
        return self.run("systemctl", "show", "--property=MainPID", "--value", "minikubelet")

    def processes(self) -> list[str]:
        """Process id and start time of everything that runs in containers, shims included."""
        listing = "ps -eo pid,lstart,cgroup,args | awk '/containerd-shim|kubepods/ && !/awk/ {print $1, $5}' | sort"
        return self.shell(listing).splitlines()

    def until(self, what: str, test: Callable[[], Any], *, within: float = 60) -> Any:
        deadline = time.monotonic() + within
        while True:
            with contextlib.suppress(AssertionError):
                if value := test():
                    return value
            if time.monotonic() > deadline:
                log = self.shell("journalctl -u minikubelet --no-pager -n 40; minikubelet get pods", check=False)
                raise TimeoutError(f"not within {within:g} s: {what}\n{log}")
            time.sleep(0.2)


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
def bare(wheels: Path, archive: Path) -> Iterator[Host]:
    """A booted guest with containerd and images, without minikubelet."""
    with _booted(wheels, archive) as machine:
        yield machine


@pytest.fixture(scope="module")
def installed(wheels: Path, archive: Path) -> Iterator[Host]:
    """One guest with minikubelet, shared by a module: each test has its own pods and leaves the daemon running."""
    with _booted(wheels, archive) as machine:
        install(machine)
        yield machine


def install(machine: Host, *options: str, check: bool = True) -> str:
    return machine.shell(
        f"{CHECKOUT}/scripts/install --wheels /wheels {' '.join(options)} 2>&1", check=check, timeout=300
    )


@contextlib.contextmanager
def _booted(wheels: Path, archive: Path) -> Iterator[Host]:
    """With wheels in /wheels and images in containerd."""
    machine = Host()
    try:
        machine.create()
        _prepare(machine, wheels)
        machine.boot()
        (machine.root / "images.tar").write_bytes(archive.read_bytes())
        machine.run("ctr", "-n", "k8s.io", "images", "import", "/images.tar")
        yield machine
    finally:
        machine.destroy()


def _prepare(machine: Host, wheels: Path) -> None:
    shutil.copytree(wheels, machine.root / "wheels")
    for folder in ("scripts", "systemd", "configs"):
        shutil.copytree(ROOT / folder, machine.root / CHECKOUT[1:] / folder)
    shutil.copytree(ROOT / "tests/support", machine.root / CHECKOUT[1:] / "tests/support")  # of use to sample-image
    # A guest may lack CAP_SYS_RESOURCE, which hosts have: no container shall ask for a lower score than containerd's.
    (machine.root / "etc/containerd/config.toml").write_text("""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
""")
