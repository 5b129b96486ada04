"""Which directories decide what a path means, so that they can be watched. Used by `sources.folder` alone.

A path can change its meaning without any event in its own folder: a parent is renamed, a symbolic link on the way is
swapped (a mounted ConfigMap swaps `..data`; a release folder swaps `current`), a missing folder is made. Each such
change is an event on one entry of one directory of the path's chain, which `chain` finds.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple

#: As the kernel's own limit.
_MOST_LINKS = 40


class Step(NamedTuple):
    """An entry of a directory that the path goes through. `directory` holds no symbolic link."""

    directory: Path
    name: str


class Chain(NamedTuple):
    steps: tuple[Step, ...]
    #: Where the path leads, without symbolic links; None when it leads nowhere.
    target: Path | None


def chain(path: Path) -> Chain:
    """Follow an absolute path entry by entry, through its symbolic links, as far as it goes. Blocks; raises nothing."""
    steps: list[Step] = []
    ahead = list(reversed(path.parts[1:]))
    here = Path("/")
    links = 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        steps.append(Step(here, name))
        try:
            link = (here / name).readlink()
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: it is there and no link
                return Chain(tuple(steps), None)
            here = here / name
            continue
        links += 1
        if links > _MOST_LINKS:
            return Chain(tuple(steps), None)
        if link.is_absolute():
            here = Path("/")
        ahead.extend(reversed(link.parts[1:] if link.is_absolute() else link.parts))
    return Chain(tuple(steps), here)
