"""A CronJob's schedule: its text to the minutes, hours and days that it names (JOBS 14).

The dialect is Kubernetes', which no cron library for Python has in full: a day-of-month and a day-of-week that are
both restricted match when either does, `*/1` is a star but `*/2` is not, 7 is no weekday, ranges never wrap around, and
`@every` takes a Go duration. `validation/` only asks whether a text can be read; `jobs/occurrences` finds the moments.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from minikubelet.api import durations

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {name: at for at, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "


class _Field(NamedTuple):
    name: str
    lowest: int
    highest: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS),
)


class ScheduleError(ValueError):
    """The text is no schedule."""


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """Five fields of cron. `weekdays` count from Sunday as 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Both day fields must match if either is a star; if both are restricted, either suffices.
    either_day: bool

    def day_matches(self, *, day: int, weekday: int) -> bool:
        if self.either_day:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


class Every(msgspec.Struct, frozen=True):
    """`@every`: a whole number of seconds, at least one."""

    seconds: int


Schedule = Calendar | Every


def parse_schedule(text: str) -> Schedule:
    """Read a schedule.

    Raises ScheduleError with what is wrong.
    """
    if "TZ" in text:
        raise ScheduleError("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    if text.startswith(_EVERY):
        try:
            seconds = durations.parse(text.removeprefix(_EVERY))
        except durations.DurationError as error:
            raise ScheduleError(str(error)) from error
        return Every(max(1, int(seconds)))
    if text.startswith("@"):
        if text not in _MACROS:
            known = ", ".join([*_MACROS, "@every <duration>"])
            raise ScheduleError(f"unrecognized descriptor: {text}; understood are {known}")
        text = _MACROS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(
            f"expected exactly {len(_FIELDS)} fields (minute, hour, day of month, month, day of week), "
            f"found {len(parts)}: {text}"
        )
    minutes, hours, days, months, weekdays = (_values(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    return Calendar(
        minutes=minutes.values,
        hours=hours.values,
        days=days.values,
        months=months.values,
        weekdays=weekdays.values,
        either_day=not (days.star or weekdays.star),
    )


class _Values(NamedTuple):
    values: frozenset[int]
    star: bool


def _values(text: str, field: _Field) -> _Values:
    values: set[int] = set()
    star = False
    for item in text.split(","):
        span, slash, step_text = item.partition("/")
        step = _number(step_text, field, item) if slash else 1
        if step < 1:
            raise ScheduleError(f"{field.name}: the step of {item} must be at least 1")
        if span in ("*", "?"):
            first, last = field.lowest, field.highest
            star = star or step == 1
        else:
            begin, dash, end = span.partition("-")
            first = _value(begin, field, item)
            last = _value(end, field, item) if dash else field.highest if slash else first
        if last < first:
            raise ScheduleError(f"{field.name}: the range {item} runs backwards")
        values.update(range(first, last + 1, step))
    return _Values(frozenset(values), star)


def _value(text: str, field: _Field, item: str) -> int:
    named = field.names.get(text.lower())
    value = _number(text, field, item) if named is None else named
    if not field.lowest <= value <= field.highest:
        raise ScheduleError(f"{field.name}: {value} is not within {field.lowest} to {field.highest}")
    return value


def _number(text: str, field: _Field, item: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ScheduleError(f"{field.name}: {item or 'nothing'} cannot be read")
    return int(text)
