"""Each row of the test table of JOBS 17 has a test that names it: `test_row_7_...`, `test_rows_10_to_12_...`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
IN_VIRTUAL_TIME = ("unit/jobs",)
ON_CONTAINERD = ("integration/jobs",)
#: Where it matters how processes really end, or that the daemon is really killed.
WITH_PROCESSES = frozenset({*range(10, 17), *range(39, 44), 56, 57})
NAME = re.compile(r"def test_rows?_(\d+)(?:_(to|and)_(\d+))?_")


def rows(folders: Iterable[str]) -> set[int]:
    named: set[int] = set()
    for folder in folders:
        for file in sorted((TESTS / folder).rglob("test_*.py")):
            for first, how, last in NAME.findall(file.read_text()):
                between = range(int(first), int(last or first) + 1)
                named.update(between if how == "to" else {int(first), int(last or first)})
    return named


@pytest.mark.parametrize(
    ("folders", "wanted"),
    [
        ((*IN_VIRTUAL_TIME, *ON_CONTAINERD), frozenset(range(1, 58))),
        (ON_CONTAINERD, WITH_PROCESSES),
    ],
    ids=["all", "with real processes"],
)
def test_every_row_has_its_test(folders: tuple[str, ...], wanted: frozenset[int]) -> None:
    assert sorted(wanted - rows(folders)) == []
