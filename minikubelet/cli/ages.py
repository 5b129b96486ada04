"""Durations as `get` shows them ("5m12s", "3d"), and moments as their age (tables.md, "Durations")."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "<unknown>"


def duration(seconds: float) -> str:
    """Every part is cut down, never rounded up."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    days = hours // 24
    if minutes < 10:
        return f"{minutes}m" + _rest(whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + _rest(minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d" + _rest(hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return f"{days // 365}y" + _rest(days % 365, "d")
    return f"{days // 365}y"


def age(moment: str | None, *, now: datetime) -> str:
    """The time since an RFC 3339 moment."""
    since = parse(moment)
    return UNKNOWN if since is None else duration((now - since).total_seconds())


def parse(moment: str | None) -> datetime | None:
    """None for no moment, and for one that cannot be read."""
    try:
        return datetime.fromisoformat(moment) if moment else None
    except ValueError:
        return None


def _rest(amount: int, unit: str) -> str:
    return f"{amount}{unit}" if amount else ""
