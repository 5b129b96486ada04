"""Which log files of a container are which, and what becomes of them (LG-2, LG-3)."""

from __future__ import annotations

from datetime import datetime

import pytest

from minikubelet.pods.log_files import Tidying, name_aside, put_aside, tidying

LOG = "2.log"
D1, D2, D3, D4 = (f"2.log.2026010{day}-000000" for day in (1, 2, 3, 4))


def test_lg_3_older_files_are_read_first_each_once_and_nothing_that_is_not_whole() -> None:
    names = [D3, f"{D1}.gz", D1, f"{D2}.gz", f"{D3}.gz.tmp", f"{D4}.tmp", LOG]
    assert put_aside(LOG, names) == [f"{D1}.gz", f"{D2}.gz", D3]


@pytest.mark.parametrize(
    "name",
    ["2.log", "22.log.20260101-000000", "2.log.old", "2.log.20260101-000000.bz2", "2.log.gz", "2.log.20260101", "x"],
)
def test_lg_2_what_rotation_did_not_make_is_left_alone(name: str) -> None:
    assert put_aside(LOG, [name]) == []
    assert tidying(LOG, [name], max_files=2) == Tidying()


@pytest.mark.parametrize(
    ("names", "max_files", "expected"),
    [
        pytest.param([LOG], 5, Tidying(), id="the first time"),
        pytest.param([LOG, D1], 5, Tidying(pack=(D1,)), id="c: what was put aside is packed"),
        pytest.param([LOG, f"{D1}.gz", D2], 5, Tidying(pack=(D2,)), id="c: once"),
        pytest.param([D4, D3, D2, D1], 5, Tidying(remove=(D1,), pack=(D2, D3, D4)), id="b: the newest three are kept"),
        pytest.param(
            [f"{D4}.gz", f"{D1}.gz", f"{D2}.gz", D3], 4, Tidying(remove=(f"{D1}.gz", f"{D2}.gz"), pack=(D3,)), id="b: 4"
        ),
        pytest.param([D1, D2], 2, Tidying(remove=(D1, D2)), id="b: two files are the log and the one put aside now"),
        pytest.param([D1, D2], 3, Tidying(remove=(D1,), pack=(D2,)), id="b: three"),
        pytest.param([D1, f"{D1}.gz"], 5, Tidying(remove=(D1,)), id="a: packed, and not removed"),
        pytest.param([D1, f"{D1}.tmp"], 5, Tidying(remove=(f"{D1}.tmp",), pack=(D1,)), id="a: packing was cut short"),
        pytest.param([f"{D1}.gz.tmp"], 5, Tidying(remove=(f"{D1}.gz.tmp",)), id="a: whatever is unfinished"),
    ],
)
def test_lg_2_tidying(names: list[str], max_files: int, expected: Tidying) -> None:
    assert tidying(LOG, names, max_files=max_files) == expected


def test_lg_2_the_name_tells_the_local_time() -> None:
    assert name_aside("0.log", datetime(2026, 3, 4, 5, 6, 7)) == "0.log.20260304-050607"  # noqa: DTZ001 - local time
