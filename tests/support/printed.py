"""What a container's process printed, read from its log files as CRI writes them.

Only standard output: containerd copies the two streams side by side, so lines of both have no order between them. A
script whose complaints matter too begins with `exec 2>&1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_LINE = re.compile(r"^\S+ stdout [FP] ?(.*)$")


def printed_lines(logs: Iterable[Path]) -> list[str]:
    """The lines of all instances of a container, in their order."""
    lines = [line for log in sorted(logs) for line in log.read_text(errors="replace").splitlines()]
    return [found[1] for line in lines if (found := _LINE.match(line))]
