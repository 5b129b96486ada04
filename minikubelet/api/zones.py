"""Time zones by name, from the host's own files, and the host's local zone."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

_LOCALTIME = Path("/etc/localtime")


class ZoneError(ValueError):
    """There is no such time zone on this host."""


def load_zone(name: str) -> ZoneInfo:
    """An IANA time zone.

    Raises ZoneError: no such zone, or the host has no time zone files (Debian's package tzdata brings them).
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ZoneError(f"unknown time zone {name}") from error


def local_zone() -> tzinfo:
    """The host's zone: `TZ` if it names one, else /etc/localtime, else UTC."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        return load_zone(name)
    if not _LOCALTIME.exists():
        return UTC
    with _LOCALTIME.open("rb") as file:
        return ZoneInfo.from_file(file)
