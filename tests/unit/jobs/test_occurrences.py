"""Which moments a schedule names (JOBS 14)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.schedule import Calendar, ScheduleError, parse_schedule
from minikubelet.jobs.occurrences import latest_within, next_after

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


def at(text: str, zone: ZoneInfo | None = None) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone or UTC).timestamp()


def moments(schedule: str, start: float, count: int, zone: ZoneInfo) -> list[str]:
    found, moment = [], start
    for _ in range(count):
        following = next_after(parse_schedule(schedule), moment, zone, anchor=start)
        assert following is not None
        found.append(datetime.fromtimestamp(following, zone).strftime("%d.%m. %H:%M %z"))
        moment = following
    return found


@pytest.mark.parametrize(
    "text",
    [
        "0 0 * * 7",
        "@reboot",
        "TZ=UTC * * * * *",
        "CRON_TZ=UTC * * * * *",
        "* * * *",
        "* * * * * *",
        "*/0 * * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "5-1 * * * *",
        "fri-mon * * * *",
        "0 0 L * *",
        "0 0 * * 1#2",
        "a * * * *",
        "1, * * * *",
        "-1 * * * *",
        "@every",
        "@every 5",
        "@every x",
        "",
    ],
)
def test_row_54_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


@pytest.mark.parametrize("text", ["@every 1m", "0 0 ? * MON-FRI", "5/15 * * * *", "@Weekly".lower(), "*/70 * * * *"])
def test_row_54_what_is_a_schedule(text: str) -> None:
    assert parse_schedule(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 jan *"),
        ("@monthly", "0 0 1 * ?"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 ? * *"),
        ("@hourly", "0 */1 * * *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("10-20/5 * * * *", "10,15,20 * * * *"),
        ("0 0 * feb,Mar-5 *", "0 0 * 2-5 *"),
    ],
)
def test_macros_names_and_steps(text: str, same: str) -> None:
    one, two = parse_schedule(text), parse_schedule(same)
    assert isinstance(one, Calendar)
    assert isinstance(two, Calendar)
    assert one == two


@pytest.mark.parametrize(
    ("text", "seconds"), [("@every 1h30m", 5400), ("@every 90s", 90), ("@every 10ms", 1), ("@every 1.9s", 1)]
)
def test_every_is_whole_seconds_and_at_least_one(text: str, seconds: int) -> None:
    assert next_after(parse_schedule(text), 1000, UTC, anchor=1000) == 1000 + seconds


def test_every_counts_from_its_anchor() -> None:
    schedule = parse_schedule("@every 60s")
    assert next_after(schedule, 1000.0, UTC, anchor=990.7) == 1050
    assert next_after(schedule, 1050.0, UTC, anchor=990.7) == 1110
    assert next_after(schedule, 900.0, UTC, anchor=990.7) == 1050
    assert latest_within(schedule, 990.7, 1170, UTC, anchor=990.7) == 1170
    assert latest_within(schedule, 990.7, 1049.9, UTC, anchor=990.7) is None


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 0 13 * 5", ["02.01.", "09.01.", "13.01.", "16.01."]),  # both restricted: either suffices
        ("0 0 13 * *", ["13.01.", "13.02."]),
        ("0 0 * * 5", ["02.01.", "09.01."]),
        ("0 0 */1 * 5", ["02.01.", "09.01."]),  # a star, so both must match
        ("0 0 13 * */1", ["13.01.", "13.02."]),
        ("0 0 */10 * 5", ["02.01.", "09.01.", "11.01.", "16.01.", "21.01."]),  # no star
    ],
)
def test_the_two_day_fields(schedule: str, expected: list[str]) -> None:
    found = moments(schedule, at("2026-01-01T12:00"), len(expected), ZoneInfo("UTC"))
    assert [text[:6] for text in found] == expected


def test_a_local_time_that_is_skipped_does_not_run_that_day() -> None:
    found = moments("30 2 * * *", at("2026-03-28T00:00"), 3, BERLIN)  # 29 March: 02:00 becomes 03:00
    assert found == ["28.03. 02:30 +0100", "30.03. 02:30 +0200", "31.03. 02:30 +0200"]


def test_a_local_time_that_occurs_twice_runs_twice() -> None:
    found = moments("30 2 * * *", at("2026-10-24T12:00"), 3, BERLIN)  # 25 October: 03:00 becomes 02:00
    assert found == ["25.10. 02:30 +0200", "25.10. 02:30 +0100", "26.10. 02:30 +0100"]


def test_shifts_of_half_an_hour() -> None:
    found = moments("*/15 1-2 * * *", at("2026-10-03T14:40"), 8, LORD_HOWE)  # 02:00 becomes 02:30
    assert [text[7:12] for text in found] == ["01:15", "01:30", "01:45", "02:30", "02:45", "01:00", "01:15", "01:30"]


def test_a_day_that_never_comes() -> None:
    assert next_after(parse_schedule("59 23 31 2 *"), at("2026-01-01T00:00"), UTC, anchor=0) is None
    assert next_after(parse_schedule("0 0 29 2 *"), at("2026-01-01T00:00"), UTC, anchor=0) == at("2028-02-29T00:00")


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "15,45", "30-40"]),
    st.sampled_from(["*", "2", "1-3", "0", "23"]),
    st.sampled_from(["*", "25", "*/5", "29"]),
    st.sampled_from(["*", "3,10", "*/2"]),
    st.sampled_from(["*", "0", "1-5"]),
)


@given(
    FIELDS.map(" ".join),
    st.integers(int(at("2026-03-20T00:00")), int(at("2026-11-05T00:00"))),
    st.integers(0, 3 * 86400),
    st.sampled_from([BERLIN, LORD_HOWE, ZoneInfo("UTC"), ZoneInfo("America/New_York")]),
)
def test_next_and_latest_are_what_a_look_at_every_minute_finds(
    text: str, start: int, length: int, zone: ZoneInfo
) -> None:
    schedule = parse_schedule(text)
    assert isinstance(schedule, Calendar)

    def named(minute: int) -> bool:
        local = datetime.fromtimestamp(minute * 60, zone)
        return (
            local.minute in schedule.minutes
            and local.hour in schedule.hours
            and local.month in schedule.months
            and schedule.day_matches(day=local.day, weekday=(local.weekday() + 1) % 7)
        )

    end = start + length
    found = [minute * 60 for minute in range(start // 60 + 1, end // 60 + 1) if named(minute)]
    assert latest_within(schedule, start, end, zone, anchor=0) == (found[-1] if found else None)
    following = next_after(schedule, start, zone, anchor=0)
    assert (following if following is not None and following <= end else None) == (found[0] if found else None)
