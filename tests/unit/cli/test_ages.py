"""Durations as kubectl shows them (tables.md, "Durations"): each border of the table from both sides."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from minikubelet.cli.ages import age, duration

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "<invalid>"),
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (-1, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (59.999, "59s"),
        (119.9, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"),
        (180 * MINUTE - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 59, "3h"),
        (3 * HOUR + MINUTE, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + 30 * MINUTE, "8h"),
        (48 * HOUR - 1, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_durations_are_cut_to_one_or_two_parts(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize("moment", [None, "", "yesterday"])
def test_no_time_known(moment: str | None) -> None:
    assert age(moment, now=datetime.now(UTC)) == "<unknown>"


def test_an_age_is_counted_from_now() -> None:
    assert age("2026-01-01T00:00:00Z", now=datetime(2026, 1, 1, 0, 5, 12, tzinfo=UTC)) == "5m12s"
