"""Amounts of bytes for people, the same in every command and message."""

from __future__ import annotations


def human(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.1f}{unit}"
    return f"{count}B"
