"""Texts as Go's libraries print them, because users and scripts know the kubelet's messages by heart."""

from __future__ import annotations

import os
import socket

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(data: str | bytes) -> str:
    """Go's `%q` of a string: in double quotes, with escapes for what cannot be printed or is no UTF-8."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    return f'"{"".join(_quoted(character) for character in text)}"'


def _quoted(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape kept
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def join_host_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial_error(host: str, port: int, problem: OSError) -> str:
    """Why a TCP connection could not be made: `dial tcp 10.0.0.1:80: connect: connection refused`."""
    if isinstance(problem, socket.gaierror):
        return f"dial tcp: lookup {host}: no such host"
    reason = os.strerror(problem.errno).lower() if problem.errno else str(problem) or type(problem).__name__
    return f"dial tcp {join_host_port(host, port)}: connect: {reason}"


def duration(seconds: float) -> str:
    """Go's way to write a duration, to the millisecond: `1.2s`, `345ms`, `1m30s`, `1h0m5s`."""
    milliseconds = int(seconds * 1000 + 1e-6)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest // 1000}" + f".{rest % 1000:03d}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
