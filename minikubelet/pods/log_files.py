"""The log files of one container instance: the one that is written, and those that rotation has put aside (LG-2, LG-3).

`<n>.log` is written by containerd; `<n>.log.YYYYMMDD-HHMMSS` was, later with `.gz`. `node.log_rotation` makes them and
asks here what to do with them; whoever reads a container's log asks for all of them, oldest first. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

PACKED, UNFINISHED = ".gz", ".tmp"

_STAMP = "%Y%m%d-%H%M%S"
_SUFFIX = re.compile(r"\.\d{8}-\d{6}(\.gz)?(\.tmp)?")
_LOG = re.compile(r"(\d{1,9})\.log(\.\d{8}-\d{6}(\.gz)?)?")


class Tidying(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with the files that were put aside before the next one is: names, oldest first."""

    remove: tuple[str, ...] = ()
    pack: tuple[str, ...] = ()


def put_aside(log: str, names: Iterable[str]) -> list[str]:
    """Of the names in its folder those that rotation has put aside of the log of this name, oldest first (LG-3).

    A file that has been packed and not removed yet counts as packed; one that is not packed fully does not count.
    """
    found = _suffixes(log, names)
    return [log + it for it in sorted(found) if not it.endswith(UNFINISHED) and it + PACKED not in found]


def attempts(names: Iterable[str]) -> list[int]:
    """The restart counts of which there is a log, smallest first, in a container's folder with these names."""
    found = (_LOG.fullmatch(name) for name in names)
    return sorted({int(it[1]) for it in found if it is not None})


def tidying(log: str, names: Iterable[str], *, max_files: int) -> Tidying:
    """Make room for one more beside the log itself, and have all that are left packed (LG-2 a to c).

    `max_files`: how many files there may be in all, 2 or more.
    """
    names = list(names)
    aside = put_aside(log, names)
    kept = aside[len(aside) - min(len(aside), max_files - 2) :]
    gone = {log + suffix for suffix in _suffixes(log, names)} - set(kept)
    return Tidying(remove=tuple(sorted(gone)), pack=tuple(name for name in kept if not name.endswith(PACKED)))


def name_aside(log: str, now: datetime) -> str:
    """The name under which the log is put aside at this moment, which is local time (LG-2 d)."""
    return f"{log}.{now.strftime(_STAMP)}"


def _suffixes(log: str, names: Iterable[str]) -> set[str]:
    """What comes after the log's own name; never anything that rotation does not make."""
    rests = (name.removeprefix(log) for name in names if name.startswith(log))
    return {rest for rest in rests if _SUFFIX.fullmatch(rest)}
