from __future__ import annotations

import errno
import socket

import pytest

from minikubelet.pods.gotext import dial_error, duration, join_host_port, quote


@pytest.mark.parametrize(
    ("given", "quoted"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ('say "hi" \\ there', r'"say \"hi\" \\ there"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1b\x7f", r'"\x00\x1b\x7f"'),
        ("ü€😀", '"ü€😀"'),
        ("\u200b\U000e0001", r'"\u200b\U000e0001"'),
        (b"\xff\xc3(", r'"\xff\xc3("'),
        ("ü".encode(), '"ü"'),
    ],
)
def test_strings_are_quoted_as_go_quotes_them(given: str | bytes, quoted: str) -> None:
    assert quote(given) == quoted


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (0.0004, "0s"), (0.345, "345ms"), (1, "1s"), (1.2, "1.2s"), (1.2345, "1.234s"), (59.999, "59.999s"),
        (60, "1m0s"), (62.5, "1m2.5s"), (90, "1m30s"), (3600, "1h0m0s"), (3725.05, "1h2m5.05s"),
    ],
)  # fmt: skip
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert [join_host_port("10.0.0.1", 80), join_host_port("fd00::1", 80)] == ["10.0.0.1:80", "[fd00::1]:80"]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (OSError(errno.ECONNREFUSED, "x"), "dial tcp h:1: connect: connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "dial tcp h:1: connect: no route to host"),
        (OSError(errno.ENETUNREACH, "x"), "dial tcp h:1: connect: network is unreachable"),
        (OSError("Multiple exceptions: a, b"), "dial tcp h:1: connect: Multiple exceptions: a, b"),
        (socket.gaierror(-2, "Name or service not known"), "dial tcp: lookup h: no such host"),
    ],
)
def test_failed_connections_are_told_in_gos_words(problem: OSError, text: str) -> None:
    assert dial_error("h", 1, problem) == text
