"""Lines with tab stops to aligned text, as kubectl's `describe` shows them.

A cell ends with a tab. Lines that follow each other and have a cell in the same column share that column's width: so
each list and each group of fields is as wide as it needs to be.
"""

from __future__ import annotations

from collections.abc import Iterable

_PADDING = 2


def aligned(lines: Iterable[str]) -> list[str]:
    rows = [line.split("\t") for line in lines]
    widths: list[list[int]] = [[0] * (len(row) - 1) for row in rows]
    for column in range(max(map(len, widths), default=0)):
        block: list[int] = []
        for number in range(len(rows) + 1):
            if number < len(rows) and len(widths[number]) > column:
                block.append(number)
                continue
            width = max((len(rows[each][column]) for each in block), default=0) + _PADDING
            for each in block:
                widths[each][column] = width
            block = []
    return [
        "".join(cell.ljust(width) for cell, width in zip(row[:-1], own, strict=True)) + row[-1]
        for row, own in zip(rows, widths, strict=True)
    ]
