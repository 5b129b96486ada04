"""Rows to aligned text, with kubectl's spacing: three blanks between columns, none wider than its widest cell."""

from __future__ import annotations

from collections.abc import Sequence

_PADDING = 3
_NARROWEST = 6


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines without a newline at the end. The last column is not padded. Line breaks in cells are shown as blanks."""
    lines = [tuple(columns), *(tuple(" ".join(cell.splitlines()) for cell in row) for row in rows)]
    widths = [max(_NARROWEST, _PADDING + max(map(len, cells))) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "".join(cell.ljust(width) for cell, width in zip(line[:-1], widths[:-1], strict=True)) + line[-1]
        for line in lines
    )
