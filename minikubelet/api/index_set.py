"""Sets of completion indexes, and Kubernetes' way of writing them: `1,3-5,7`.

Jobs may have millions of indexes, so a set is its runs. `validation/` reads success policies with it, `jobs/` counts
with it, and `store/` keeps the text.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator

_ITEM = re.compile(r"(0|[1-9][0-9]*)(?:-(0|[1-9][0-9]*))?")


class IndexSetError(ValueError):
    """The text is no index set."""


class IndexSet:
    """Immutable. `runs` are inclusive, ascending, and never touch each other."""

    __slots__ = ("_starts", "runs")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.runs = tuple(runs)
        self._starts = [first for first, _ in self.runs]

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        runs: list[tuple[int, int]] = []
        for index in sorted(set(indexes)):
            if runs and runs[-1][1] == index - 1:
                runs[-1] = (runs[-1][0], index)
            else:
                runs.append((index, index))
        return cls(runs)

    @classmethod
    def parse(cls, text: str) -> IndexSet:
        """Read the text form; runs that touch are joined.

        Raises IndexSetError: not ascending, overlapping, a run that does not rise, or no numbers.
        """
        runs: list[tuple[int, int]] = []
        for item in text.split(",") if text else ():
            match = _ITEM.fullmatch(item)
            if match is None:
                raise IndexSetError(f"{item!r} is neither an index nor a range of indexes such as 3-5")
            first = int(match[1])
            last = first if match[2] is None else int(match[2])
            if match[2] is not None and last <= first:
                raise IndexSetError(f"the range {item} does not rise")
            if runs and first <= runs[-1][1]:
                raise IndexSetError(f"{item} does not come after {runs[-1][1]}")
            if runs and first == runs[-1][1] + 1:
                runs[-1] = (runs[-1][0], last)
            else:
                runs.append((first, last))
        return cls(runs)

    def __str__(self) -> str:
        """Two in a row are written `a,b`, three or more `a-b` (JOBS 4)."""
        parts = []
        for first, last in self.runs:
            parts.append(str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}")
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"IndexSet({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self.runs == other.runs

    def __hash__(self) -> int:
        return hash(self.runs)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs:
            yield from range(first, last + 1)

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int):
            return False
        at = bisect.bisect_right(self._starts, index) - 1
        return at >= 0 and index <= self.runs[at][1]

    @property
    def highest(self) -> int:
        """The greatest index; -1 if there is none."""
        return self.runs[-1][1] if self.runs else -1

    def add(self, index: int) -> IndexSet:
        if index in self:
            return self
        at = bisect.bisect_right(self._starts, index)
        first = last = index
        begin = end = at
        if at > 0 and self.runs[at - 1][1] == index - 1:
            first, begin = self.runs[at - 1][0], at - 1
        if at < len(self.runs) and self.runs[at][0] == index + 1:
            last, end = self.runs[at][1], at + 1
        return IndexSet((*self.runs[:begin], (first, last), *self.runs[end:]))

    def below(self, limit: int) -> IndexSet:
        """Only the indexes that are smaller than `limit`."""
        return IndexSet((first, min(last, limit - 1)) for first, last in self.runs if first < limit)

    def common(self, other: IndexSet) -> int:
        """How many indexes both sets have."""
        count, at = 0, 0
        for first, last in self.runs:
            while at < len(other.runs) and other.runs[at][1] < first:
                at += 1
            here = at
            while here < len(other.runs) and other.runs[here][0] <= last:
                count += min(last, other.runs[here][1]) - max(first, other.runs[here][0]) + 1
                here += 1
        return count


NO_INDEXES = IndexSet()
