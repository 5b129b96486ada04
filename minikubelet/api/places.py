"""From a path such as `spec.containers[0].name` to the line it stands in. Used by `decode` for errors only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from minikubelet.api.documents import Mapping, Node, Scalar

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def steps_of(path: str) -> tuple[str, ...]:
    """`a.b[0].c[x.y/z]` -> a, b, 0, c, x.y/z."""
    return tuple(match[1] if match[1] is not None else match[2] for match in _STEP.finditer(path))


def line_of(root: Node, path: str) -> int:
    """The line of the deepest part of a path that the document has: of its key, or of a list's item."""
    node, line = root, root.line
    for step in steps_of(path):
        if isinstance(node, Scalar):
            break
        if isinstance(node, Mapping):
            if step not in node.items:
                break
            line, node = node.lines[step], node.items[step]
        elif step.isdecimal() and int(step) < len(node.items):
            node = node.items[int(step)]
            line = node.line
        else:
            break
    return line


class Unread:
    """Paths that could not be read. What validation says about them, or about what holds them, would be of no use."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = {steps_of(path) for path in paths}
        self._holders = {steps[:length] for steps in self._paths for length in range(len(steps))}

    def concerns(self, path: str) -> bool:
        """Whether one of the paths is this one, holds it, or lies within it."""
        steps = steps_of(path)
        return steps in self._holders or any(steps[:length] in self._paths for length in range(len(steps) + 1))
