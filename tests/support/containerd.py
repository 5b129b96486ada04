"""A private containerd for tests and the demo: nothing on the host is touched that it did not make itself.

Root, state, socket, CNI configuration and network state lie below one folder; bridge, subnet and cgroup root have
names of their own. `python -m tests.support.containerd FOLDER` runs one in the foreground until SIGTERM or SIGINT.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from minikubelet.runtime.channel import connect
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.pb import cri_pb2, cri_pb2_grpc
from tests.support.images import BUSYBOX, PAUSE, PAUSE_NAME, Image, write_archive

_CNI_DIRS = ("/usr/lib/cni", "/opt/cni/bin")
_PLUGINS_NEEDED = ("bridge", "host-local", "loopback", "portmap")


class PrivateContainerd:
    """One containerd of our own. Blocking; from a test use `asyncio.to_thread` for stop, start and destroy."""

    def __init__(
        self, base: Path | None = None, *, binary: str | None = None, runc: str | None = None, cni: bool = True
    ) -> None:
        """`base`: where everything goes (made if missing; a short path, it holds a socket). `cni`: with a network.

        `binary`: which containerd; by default $MINIKUBELET_TEST_CONTAINERD, else the host's. `runc` likewise.
        """
        self.base = (base or Path(tempfile.mkdtemp(prefix="mk-"))).absolute()
        self.base.mkdir(parents=True, exist_ok=True)
        self.socket = self.base / "containerd.sock"
        self.log = self.base / "containerd.log"
        self.cni_conf_dir = self.base / "cni"
        binary = binary or os.environ.get("MINIKUBELET_TEST_CONTAINERD") or "containerd"
        self.binary = _find(binary, hint="install containerd")
        self.runc = _find(runc or os.environ.get("MINIKUBELET_TEST_RUNC") or "runc", hint="install runc")
        tag = secrets.token_hex(3)
        self.bridge = f"mk{tag}"
        #: For `cgroupRoot`, so that pods of different daemons keep apart.
        self.cgroup_root = f"/mk-{tag}"
        self.subnet = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(254) + 1}"
        self._process: subprocess.Popen[bytes] | None = None
        self._write_config()
        if cni:
            self.write_cni()

    def write_cni(self, *, extra: dict[str, object] | None = None) -> None:
        """Give it a network: bridge, host-local, portmap. `extra` is one more plugin, at the end of the chain."""
        plugins: list[dict[str, object]] = [
            {
                "type": "bridge",
                "bridge": self.bridge,
                "isGateway": True,
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(self.base / "cni-state"),
                    "ranges": [[{"subnet": f"{self.subnet}.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        conflist = {"cniVersion": "1.0.0", "name": self.bridge, "plugins": plugins + ([extra] if extra else [])}
        self.cni_conf_dir.mkdir(exist_ok=True)
        fresh = self.cni_conf_dir / "10-test.conflist.new"
        fresh.write_text(json.dumps(conflist))
        fresh.rename(self.cni_conf_dir / "10-test.conflist")

    def remove_cni(self) -> None:
        (self.cni_conf_dir / "10-test.conflist").unlink()

    def start(self, *, timeout: float = 30, wait: bool = True) -> None:
        """Start it and, with `wait`, return when CRI is ready. Raises RuntimeError with the end of its log."""
        environment = dict(os.environ, PATH=f"{self.binary.parent}:{os.environ.get('PATH', '')}")
        with self.log.open("ab") as log:
            command = [str(self.binary), "--config", str(self.base / "config.toml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        if not wait:
            return
        deadline = time.monotonic() + timeout
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"{self.binary} did not become ready; the end of its log:\n{tail}")
            time.sleep(0.05)

    def load_images(self, images: Sequence[Image] = (BUSYBOX, PAUSE)) -> None:
        """Give it images. Runs an event loop of its own: not from inside one (there use `asyncio.to_thread`)."""
        archive = write_archive(self.base / "images.tar", images)

        async def load() -> None:
            async with connect(self.socket) as channel:
                await ImageService(channel).import_archive(archive)

        asyncio.run(load())
        archive.unlink()

    def stop(self, *, sig: int = signal.SIGTERM) -> None:
        """End the daemon only; containers go on. `sig=SIGKILL` is a crash."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(sig)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def signal(self, sig: int) -> None:
        """Send it a signal, e.g. SIGSTOP. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError("containerd does not run")
        self._process.send_signal(sig)

    def kill_sandbox(self, sandbox_id: str) -> None:
        """Kill a sandbox's own process, as if by accident."""
        pid = (self.base / "state/io.containerd.runtime.v2.task/k8s.io" / sandbox_id / "init.pid").read_text()
        os.kill(int(pid), signal.SIGKILL)

    def destroy(self) -> None:
        """End the daemon and all it started; take down mounts, network, cgroups and the folder. May be repeated."""
        self._remove_pods()
        self.stop()
        self._kill_shims()
        _unmount_below(self.base)
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)
        self._remove_cni_results()
        _remove_cgroups(self.cgroup_root)
        shutil.rmtree(self.base, ignore_errors=True)

    def _write_config(self) -> None:
        plugin_dir = next((d for d in _CNI_DIRS if all(Path(d, p).exists() for p in _PLUGINS_NEEDED)), None)
        if plugin_dir is None:
            raise RuntimeError(f"CNI plugins {', '.join(_PLUGINS_NEEDED)} are in none of {', '.join(_CNI_DIRS)}")
        # restrict_oom_score_adj: tests may run without CAP_SYS_RESOURCE; the product does without this setting.
        (self.base / "config.toml").write_text(f"""version = 2
root = "{self.base}/root"
state = "{self.base}/state"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.base}/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_NAME}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{self.runc}"
        Root = "{self.base}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugin_dir}"
    conf_dir = "{self.cni_conf_dir}"
""")

    def _ready(self) -> bool:
        with contextlib.closing(grpc.insecure_channel(f"unix://{self.socket}")) as channel:
            try:
                stub = cri_pb2_grpc.RuntimeServiceStub(channel)
                conditions = stub.Status(cri_pb2.StatusRequest(), timeout=5).status.conditions
            except grpc.RpcError:
                return False
            return any(c.type == "RuntimeReady" and c.status for c in conditions)

    def _remove_pods(self) -> None:
        """By CRI, so that CNI takes its addresses, interfaces and iptables rules back."""
        if not (self.base / "config.toml").exists():
            return
        if self._process is None or self._process.poll() is not None:
            with contextlib.suppress(RuntimeError):
                self.start(timeout=10)
        with contextlib.closing(grpc.insecure_channel(f"unix://{self.socket}")) as channel:
            stub = cri_pb2_grpc.RuntimeServiceStub(channel)

            def remove(pod: cri_pb2.PodSandbox) -> None:
                with contextlib.suppress(grpc.RpcError):
                    stub.RemovePodSandbox(cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.id), timeout=30)

            with contextlib.suppress(grpc.RpcError), ThreadPoolExecutor(4) as pool:
                list(pool.map(remove, stub.ListPodSandbox(cri_pb2.ListPodSandboxRequest(), timeout=10).items))

    def _remove_cni_results(self) -> None:
        """What CNI remembers of sandboxes that it could not be asked to take down."""
        marks = [self.bridge, *(p.name for p in (self.base / "root/io.containerd.grpc.v1.cri/sandboxes").glob("*"))]
        for mark in marks:
            for cached in Path("/var/lib/cni/results").glob(f"*{mark}-*"):
                cached.unlink(missing_ok=True)

    def _kill_shims(self) -> None:
        """Shims name the socket they report to; what they run are their children."""
        mark = f"\0-address\0{self.socket}\0".encode()
        shims = [pid for pid, command in _processes() if b"containerd-shim" in command and mark in command + b"\0"]
        for shim in shims:
            for child in [*_children(shim), shim]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{pid}").exists() for pid in shims) and time.monotonic() < deadline:
            time.sleep(0.02)


def _find(program: str, *, hint: str) -> Path:
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise RuntimeError(f"{program} is not on this machine: {hint}")
    return Path(found)


def _processes() -> list[tuple[int, bytes]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found.append((int(entry.name), (entry / "cmdline").read_bytes()))
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += [int(child) for child in (task / "children").read_text().split()]
    return children


def _unmount_below(folder: Path) -> None:
    # Column 5 of mountinfo is the mount point, with blanks written as \040.
    points = [re.sub(r"\\040", " ", line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def _remove_cgroups(root: str) -> None:
    """Cgroups of one name in every hierarchy, leaves first."""
    tops = [Path(f"/sys/fs/cgroup{root}"), *Path("/sys/fs/cgroup").glob(f"*{root}")]
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _serve(folder: Path) -> None:
    daemon = PrivateContainerd(folder)

    def end(_signal: int, _frame: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        daemon.start()
        daemon.load_images()
        sys.stdout.write(f"{daemon.socket}\n")
        sys.stdout.flush()
        signal.pause()
    finally:
        daemon.destroy()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.support.containerd FOLDER")
    _serve(Path(sys.argv[1]))
