from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from minikubelet.notify import notify, watchdog_interval


@pytest.mark.parametrize(
    ("wanted", "meant", "seconds"),
    [
        ("30000000", "", 30.0),
        ("500000", str(os.getpid()), 0.5),
        ("500000", "1", 0.0),  # another process of the unit
        ("", "", 0.0),
        ("soon", "", 0.0),
        ("-1", "", 0.0),
    ],
)
def test_the_watchdog_is_fed_as_the_supervisor_asks(
    monkeypatch: pytest.MonkeyPatch, wanted: str, meant: str, seconds: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", wanted)
    monkeypatch.setenv("WATCHDOG_PID", meant)
    assert watchdog_interval() == seconds


def test_the_supervisor_hears_what_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(path))
        supervisor.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        notify("READY=1")
        assert supervisor.recv(100) == b"READY=1"


def test_a_supervisor_that_is_gone_disturbs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")
