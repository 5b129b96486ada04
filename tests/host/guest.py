"""A whole Debian in an emulated machine: a kernel with cgroup v2 alone, and systemd that manages them.

It is made from Debian's packages, boots, runs one Python script as root, tells what the script has printed, and is
gone. There is no network in it. Slow (emulated), so that one boot has to serve many questions. Blocking; for root only.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = (
    "linux-image-cloud-amd64", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "iptables", "containerd", "runc",
    "containernetworking-plugins", "busybox-static", "python3-venv",
)  # fmt: skip
NEEDED = ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "apt-get")

_BEGIN, _END = "<<<ANSWER", "ANSWER>>>"
_UNIT = f"""[Unit]
Description=Ask what this guest is for
After=multi-user.target containerd.service dbus.service
[Service]
Type=oneshot
# Twice base64: the console may break lines and add some of its own.
ExecStart=/bin/sh -c '/usr/bin/python3 /ask.py >/answer 2>&1; \\
  {{ echo; echo "{_BEGIN}"; base64 -w 76 /answer; echo "{_END}"; }} >/dev/ttyS0; sync'
ExecStopPost=/bin/systemctl poweroff --no-block
[Install]
WantedBy=multi-user.target
"""
_KERNEL = "root=/dev/vda rw console=ttyS0 quiet mitigations=off systemd.show_status=0"


class GuestError(Exception):
    """The guest could not be made, or did not answer; with what it said last."""


class Guest:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = folder / "root"

    def make(self, *, suite: str = "bookworm") -> None:
        """Lay down Debian. Raises GuestError: there is no mirror to have it from."""
        mirror = _output("apt-get", "indextargets", "--format", "$(REPO_URI)").split()
        if not mirror:
            raise GuestError("apt knows of no mirror")
        include = f"--include={','.join(PACKAGES)}"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", include, suite, str(self.root), mirror[0]]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise GuestError(done.stderr[-2000:])

    def install(self, wheels: Path) -> None:
        """minikubelet, as README.md says, from wheels: `/opt/minikubelet/bin/minikubelet`."""
        shutil.copytree(wheels, self.root / "wheels")
        install = "/opt/minikubelet/bin/pip install --quiet --no-index --find-links /wheels minikubelet"
        _output("chroot", str(self.root), "sh", "-c", f"python3 -m venv /opt/minikubelet && {install} && rm -r /wheels")

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def ask(self, script: str, *, within: float) -> Any:
        """Boot, run the script, power off; what its last line of output says, as JSON.

        Raises GuestError: it did not answer in time, or something else; with all that it printed.
        """
        self.write("/ask.py", script)
        self.write("/etc/systemd/system/ask.service", _UNIT)
        wants = self.root / "etc/systemd/system/multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / "ask.service").symlink_to("/etc/systemd/system/ask.service")
        (self.root / "etc/systemd/system/serial-getty@ttyS0.service").symlink_to("/dev/null")
        disk = self._folder / "disk.img"
        _output("mke2fs", "-q", "-t", "ext4", "-d", str(self.root), str(disk), "4G")
        printed = self._boot(disk, within=within)
        found = re.search(rf"{_BEGIN}(.*?){_END}", printed, re.DOTALL)
        if found is None:
            raise GuestError(f"no answer within {within:g} s; the end of its console:\n{printed[-4000:]}")
        output = base64.b64decode("".join(found[1].split())).decode(errors="replace")
        try:
            return json.loads(output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise GuestError(f"the script failed:\n{output[-6000:]}") from None

    def _boot(self, disk: Path, *, within: float) -> str:
        boot = self.root / "boot"
        (kernel,) = boot.glob("vmlinuz-*")
        (initrd,) = boot.glob("initrd.img-*")
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048", "-nographic",
            "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd), "-append", _KERNEL,
            "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe", "-net", "none", "-monitor", "none",
        ]  # fmt: skip
        console = self._folder / "console.log"
        with console.open("wb") as log:
            machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                machine.wait(within)
            except subprocess.TimeoutExpired:
                machine.kill()
                machine.wait()
        return console.read_text(errors="replace")


def _output(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise GuestError(f"{' '.join(command)[:200]}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout
