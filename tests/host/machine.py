"""A throw-away host: systemd really booted in systemd-nspawn on an overlay over this machine's own root.

What is installed here is installed there; what happens there stays there and is gone with it. It has no network but
loopback. Blocking, and for root only. `Machine` cleans up whatever it made in `destroy`, at whichever point it broke.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

#: Below these the guest shall not see what this machine's own use left.
_HIDDEN = ("etc/minikubelet", "opt/minikubelet", "var/lib/minikubelet", "etc/cni/net.d", "var/lib/cni")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"


class Machine:
    def __init__(self) -> None:
        self.name = f"minikubelet-{secrets.token_hex(3)}"
        self.base = Path(tempfile.mkdtemp(prefix="mk-host-"))
        self.root = self.base / "ram/root"
        self._containerd = self.base / "containerd"  # on the real disk: overlay snapshots need it
        self._console = self.base / "console.log"
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._cgroups_before = _pod_cgroups()

    def create(self) -> None:
        """Lay the overlay. Raises CalledProcessError where the kernel or the rights do not allow it."""
        ram = self.base / "ram"
        ram.mkdir()
        self._containerd.mkdir()
        _run("mount", "-t", "tmpfs", "-o", "size=2g,mode=755", "tmpfs", str(ram))
        for folder in ("upper", "work", "root"):
            (ram / folder).mkdir()
        options = f"lowerdir=/,upperdir={ram}/upper,workdir={ram}/work"
        _run("mount", "-t", "overlay", "-o", options, "overlay", str(self.root))
        for folder in _HIDDEN:
            shutil.rmtree(self.root / folder, ignore_errors=True)
        # A host of its own: an identity of its own, and none of the services that this machine happens to have.
        (self.root / "etc/machine-id").write_text("")
        (self.root / "etc/hostname").write_text("guest\n")

    def boot(self, *, within: float = 90) -> None:
        """Start it and return when systemd says that it is up. Raises TimeoutError with the end of the console."""
        with self._console.open("ab") as console:
            self._nspawn = subprocess.Popen(
                [
                    "systemd-nspawn", "--quiet", f"--directory={self.root}", f"--machine={self.name}", "--boot",
                    "--register=no", "--keep-unit", "--capability=all", "--private-users=no", "--private-network",
                    "--system-call-filter=@keyring bpf", f"--bind={self._containerd}:/var/lib/containerd",
                    "systemd.unit=multi-user.target",
                ],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip
        nspawn = self._nspawn
        self._leader = self._until("its first process", lambda: _first_process(nspawn.pid), within)
        self._until("that it is up", self._is_up, within)
        # nspawn gives these read-only; containers need them as a host has them.
        read_only = "awk '$2 ~ \"^/sys/fs/cgroup|^/proc/sys$\" {print $2}' /proc/mounts"
        self.shell(f"for m in $({read_only}); do mount -o remount,bind,rw $m; done")

    def reboot(self) -> None:
        """As `systemctl reboot`: everything stops in order, memory is lost, the disk stays."""
        before = self.shell("cat /proc/sys/kernel/random/boot_id")
        self.run("systemctl", "reboot", check=False)
        self._ended()
        self.boot()
        assert self.shell("cat /proc/sys/kernel/random/boot_id") != before

    def power_cut(self) -> None:
        """As if the plug was pulled, and put in again."""
        if self._leader:
            os.kill(self._leader, signal.SIGKILL)
        self._ended()
        self.boot()

    def run(self, *command: str, check: bool = True, timeout: float = 120) -> str:
        """A command inside; its output without the last newline. Raises AssertionError with all it said if it fails."""
        inside = (
            "nsenter",
            "-t",
            str(self._leader),
            "-a",
            "env",
            "-i",
            _PATH,
            "HOME=/root",
            "LC_ALL=C.UTF-8",
            *command,
        )
        done = subprocess.run(
            inside, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode} in the guest:\n{done.stdout}\n{done.stderr}")
        return done.stdout.rstrip("\n")

    def shell(self, script: str, *, check: bool = True, timeout: float = 120) -> str:
        return self.run("sh", "-c", script, check=check, timeout=timeout)

    def console(self) -> str:
        return self._console.read_text(errors="replace")[-3000:] if self._console.exists() else ""

    def destroy(self) -> None:
        """End it and take down every mount, folder and cgroup. May be repeated."""
        if self._nspawn is not None:
            if self._nspawn.poll() is None and self._leader:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._leader, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._nspawn.wait(20)
            self._nspawn.kill()
            self._nspawn.wait()
            self._nspawn = None
        mounts = [
            re.sub(r"\\040", " ", line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ]
        for point in sorted((m for m in mounts if m.startswith(f"{self.base}/")), reverse=True):
            subprocess.run(["umount", "--lazy", point], check=False)
        shutil.rmtree(self.base, ignore_errors=True)
        for folder in (
            Path("/run/systemd/nspawn/propagate") / self.name,
            Path("/run/systemd/nspawn/unix-export") / self.name,
        ):
            shutil.rmtree(folder, ignore_errors=True)
        # The guest has this machine's cgroup controllers, so its pods' groups were made in them.
        for folder in sorted(_pod_cgroups() - self._cgroups_before, reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _is_up(self) -> bool:
        return self.run("systemctl", "is-system-running", check=False) in ("running", "degraded")

    def _ended(self) -> None:
        assert self._nspawn is not None
        self._nspawn.wait(60)
        self._leader = 0

    def _until(self, what: str, test: Callable[[], int], within: float) -> int:
        deadline = time.monotonic() + within
        while not (value := test()):
            if time.monotonic() > deadline or (self._nspawn is not None and self._nspawn.poll() is not None):
                raise TimeoutError(f"the guest did not show {what}; console:\n{self.console()}")
            time.sleep(0.1)
        return value


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _first_process(nspawn: int) -> int:
    """The child of nspawn that is process 1 of the guest, 0 if it is not there yet: others make way for it."""
    try:
        children = Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()
        inside = {child: Path(f"/proc/{child}/status").read_text() for child in children}
    except OSError:
        return 0  # one ended meanwhile
    return next((int(child) for child, status in inside.items() if re.search(r"(?m)^NSpid:.*\t1$", status)), 0)


def _pod_cgroups() -> set[Path]:
    """Every cgroup below a kubepods root, in all hierarchies."""
    tops = [*Path("/sys/fs/cgroup").glob("kubepods*"), *Path("/sys/fs/cgroup").glob("*/kubepods*")]
    return {Path(folder) for top in tops for folder, _, _ in os.walk(top)}
