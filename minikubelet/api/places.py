"""From a path such as `spec.containers[0].name` to the line it stands in. Used by `decode` for errors only."""

from __future__ import annotations

import re

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


def overlaps(path: str, other: str) -> bool:
    """Whether one path is the other or lies within it."""
    one, two = steps_of(path), steps_of(other)
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter]
