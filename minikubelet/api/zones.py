"""Time zones by name, and the host's local zone.

Zones come from the host's own files where it has them, which its updates keep in step with the laws, else from the
package tzdata (zoneinfo looks there by itself).
"""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

_LOCALTIME = Path("/etc/localtime")


class ZoneError(ValueError):
    """There is no such time zone."""


def load_zone(name: str) -> ZoneInfo:
    """An IANA time zone. Raises ZoneError."""
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
