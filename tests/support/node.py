"""A whole node of its own: a private containerd with images, and `minikubelet run` on it, in one folder.

For the tests that look from outside, and for the demo. Blocking. Everything is taken down again by `destroy`.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.containerd import PrivateContainerd
from tests.support.images import BUSYBOX, PAUSE, Image, write_archive

_MINIKUBELET = Path(sys.executable).with_name("minikubelet")


class PrivateNode:
    """`base` as for PrivateContainerd. The daemon's log is `log`, manifests go to `manifests`, /pods is below `url`."""

    def __init__(
        self, base: Path | None = None, *, containerd: str = "containerd", endpoint: Path | None = None
    ) -> None:
        """`endpoint`: a socket for the daemon other than containerd's own, relative to the node's folder."""
        self.containerd = PrivateContainerd(base, binary=containerd)
        #: What runs the daemon.
        self.command: Sequence[str] = (str(_MINIKUBELET),)
        self.base = self.containerd.base
        self.endpoint = self.base / endpoint if endpoint else self.containerd.socket
        self.manifests = self.base / "manifests"
        #: Image archives; the folder is not made.
        self.images = self.base / "images"
        #: Containers' logs: POD/CONTAINER/ATTEMPT.log.
        self.logs = self.base / "logs"
        self.log = self.base / "minikubelet.log"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._config = self.base / "minikubelet.yaml"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._write_config()

    def configure(self, text: str) -> None:
        """Add to the daemon's configuration, before it is started."""
        with self._config.open("a") as file:
            file.write(text)

    def create(self, *, images: Sequence[Image] = (BUSYBOX, PAUSE)) -> None:
        """Start containerd and give it the images. Raises RuntimeError with what went wrong."""
        self.manifests.mkdir(exist_ok=True)
        self.containerd.start()
        if images:
            archive = write_archive(self.base / "images.tar", images)
            self.ctr("images", "import", "--no-unpack", str(archive))
            archive.unlink()

    def ctr(self, *arguments: str) -> str:
        client = self.containerd.binary.with_name("ctr")
        command = [str(client), "--address", str(self.containerd.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
        if done.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, *, within: float = 30, serving: bool = True) -> None:
        """Start the daemon if it does not run, and return when it serves /pods, or at once.

        Raises RuntimeError with the end of its log.
        """
        if self._daemon is None:
            self._launch()
        if serving:
            self._until_serving(within)

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C at a terminal is for whoever runs this, who then ends the daemon.
            self._daemon = subprocess.Popen(
                [*self.command, "run", "--config", str(self._config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _until_serving(self, within: float) -> None:
        deadline = time.monotonic() + within
        while not self._serves():
            if self._daemon is None or self._daemon.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-3000:]
                self.stop()
                raise RuntimeError(f"minikubelet did not start; the end of its log:\n{tail}")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """The daemon's. Raises RuntimeError when it does not run."""
        if self._daemon is None:
            raise RuntimeError("the daemon does not run")
        return self._daemon.pid

    def stop(self, sig: int = signal.SIGTERM) -> None:
        """End the daemon only; pods go on. SIGKILL is a crash."""
        daemon, self._daemon = self._daemon, None
        if daemon is None or daemon.poll() is not None:
            return
        daemon.send_signal(sig)
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def run_second(self) -> subprocess.CompletedProcess[str]:
        """Run one more daemon on the same state, in the foreground, until it ends by itself."""
        command = [str(_MINIKUBELET), "run", "--config", str(self._config)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    def get(self, path: str) -> Any:
        """The JSON at `path` of the read-only server. Raises OSError."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:  # noqa: S310 - our own URL
            return json.load(answer)

    def cli(self, *arguments: str) -> str:
        """What the `minikubelet` command prints when it asks this node."""
        command = [str(_MINIKUBELET), *arguments]
        control = self.base / "minikubelet" / "minikubelet.sock"
        environment = {**os.environ, "MINIKUBELET_SERVER": self.url, "MINIKUBELET_SOCKET": str(control)}
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        return done.stdout

    def destroy(self) -> None:
        """May be repeated."""
        self.stop(signal.SIGKILL)
        self.containerd.destroy()

    def leftovers(self) -> list[str]:
        """What is still there of it on this machine; after `destroy` there must be nothing."""
        base = f"{self.base}/"
        processes = [f"process {pid}" for pid in _pids() if base.encode() in _command_line(pid)]
        mounts = [
            f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines() if base in line
        ]
        cgroups = [
            *Path("/sys/fs/cgroup").glob(f"*{self.containerd.cgroup_root}"),
            *Path("/sys/fs/cgroup").glob(self.containerd.cgroup_root[1:]),
        ]
        bridge = Path("/sys/class/net") / self.containerd.bridge
        files = [path for path in (*cgroups, bridge, self.base) if path.exists()]
        return processes + mounts + [str(path) for path in files]

    def _serves(self) -> bool:
        try:
            self.get("/pods")
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _write_config(self) -> None:
        self._config.write_text(f"""apiVersion: minikubelet.config/v1
kind: MinikubeletConfiguration
staticPodPath: {self.manifests}
imageArchivesPath: {self.images}
rootDir: {self.base}/minikubelet
podLogsDir: {self.logs}
containerRuntimeEndpoint: unix://{self.endpoint}
readOnlyPort: {self.port}
cgroupRoot: {self.containerd.cgroup_root}
""")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
