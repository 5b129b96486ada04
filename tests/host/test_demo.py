"""scripts/demo: it shows what it says, and whenever it ends it leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def play(*, interrupt_after: str | None = None, sig: int = signal.SIGINT) -> tuple[int, str]:
    """Run the play; exit status and output. `interrupt_after`: the signal is sent once a line has this text."""
    command = [sys.executable, "-u", "-m", "scripts.demo_play", "a venv", "an image"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if interrupt_after is not None and interrupt_after in line:
                process.send_signal(sig)
                interrupt_after = None
    return process.returncode, "".join(lines)


def traces(output: str) -> list[str]:
    """What is left on this machine of the folder that the demo said it used."""
    found = re.search(r"/\S*mk-demo-\S+", output)
    assert found, output
    folder = found[0]
    left = [folder] if Path(folder).exists() else []
    left += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line]
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return left + [line for line in listing.splitlines() if folder in line]


def test_the_whole_play_shows_gates_restart_completion_and_the_reverse_order() -> None:
    status, output = play()
    assert status == 0, output
    assert "Left behind: nothing" in output
    assert output.endswith("Kept for next time: a venv, an image\n")
    assert not traces(output)
    for part in ("0/3     Init:0/2", "web is still the same container", "report is Succeeded"):
        assert part in output, output
    told_to_stop = re.findall(r"(web|shipper|proxy) +told to stop; finishing", output)
    assert told_to_stop == ["web", "shipper", "proxy"], output


@pytest.mark.parametrize(
    ("moment", "sig"),
    [
        ("Starting a containerd", signal.SIGINT),
        ("put shop.yaml", signal.SIGINT),
        ("kill -9 the process", signal.SIGTERM),
        ("put report.yaml", signal.SIGHUP),
        ("removed shop.yaml", signal.SIGINT),
    ],
)
def test_interrupted_at_any_moment_it_leaves_nothing_behind(moment: str, sig: int) -> None:
    status, output = play(interrupt_after=moment, sig=sig)
    assert status == 130, output
    assert "Left behind: nothing" in output
    assert not traces(output)
