"""Sets of indexes and their text (JOBS 4 and 9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.index_set import IndexSet, IndexSetError

SETS = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (set(), ""),
        ({0}, "0"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({1, 3, 4, 5, 7}, "1,3-5,7"),
        ({9, 10, 12, 13}, "9,10,12,13"),
    ],
)
def test_two_in_a_row_are_listed_and_three_are_a_range(indexes: set[int], text: str) -> None:
    assert str(IndexSet.of(indexes)) == text
    assert set(IndexSet.parse(text)) == indexes


@pytest.mark.parametrize(
    "text", ["1,1", "3,2", "2-1", "2-2", "0-3,3", "a", "1-", "-1", "1,,2", " 1", "01", "1-2-3", ","]
)
def test_what_is_no_index_set(text: str) -> None:
    with pytest.raises(IndexSetError):
        IndexSet.parse(text)


@given(SETS)
def test_the_text_says_the_set(indexes: set[int]) -> None:
    found = IndexSet.of(indexes)
    assert IndexSet.parse(str(found)) == found
    assert set(found) == indexes
    assert len(found) == len(indexes)
    assert found.highest == max(indexes, default=-1)


@given(SETS, st.integers(0, 42))
def test_adding_and_cutting_are_those_of_sets(indexes: set[int], index: int) -> None:
    found = IndexSet.of(indexes)
    assert found.add(index) == IndexSet.of(indexes | {index})
    assert (index in found) == (index in indexes)
    assert found.below(index) == IndexSet.of({each for each in indexes if each < index})


@given(SETS, SETS)
def test_common_is_the_size_of_the_intersection(one: set[int], two: set[int]) -> None:
    assert IndexSet.of(one).common(IndexSet.of(two)) == len(one & two)


def test_a_set_of_millions_is_small() -> None:
    found = IndexSet.parse("0-9999999,10000001")
    assert len(found) == 10_000_001
    assert found.add(10_000_000).runs == ((0, 10_000_001),)
    assert found != "0-9999999,10000001"
