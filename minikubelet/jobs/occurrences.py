"""The moments that a schedule names, in a time zone (JOBS 14). Pure; unix seconds in and out.

A moment is named when its local time matches. So a local time that daylight saving skips does not occur that day, and
one that occurs twice occurs twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from minikubelet.api.schedule import Calendar, Every, Schedule

_MINUTE = 60
_DAY = 24 * 60
#: How far is looked, in minutes: a schedule that does not occur within five years never does.
_HORIZON = 5 * 366 * _DAY


def next_after(schedule: Schedule, moment: float, zone: tzinfo, *, anchor: float) -> int | None:
    """The first moment later than `moment`; None: never. `@every` counts from `anchor`."""
    if isinstance(schedule, Every):
        start = int(anchor)
        passed = int(moment) - start
        return start + max(passed // schedule.seconds + 1, 1) * schedule.seconds
    first = int(moment // _MINUTE) + 1
    found = _search(schedule, first, first + _HORIZON, zone, step=1)
    return None if found is None else found * _MINUTE


def latest_within(schedule: Schedule, after: float, until: float, zone: tzinfo, *, anchor: float) -> int | None:
    """The last moment that is later than `after` and not later than `until`; None: there is none."""
    if isinstance(schedule, Every):
        start = int(anchor)
        times = (int(until) - start) // schedule.seconds
        found = start + times * schedule.seconds
        return found if times >= 1 and found > after else None
    last = int(until // _MINUTE)
    first = max(int(after // _MINUTE) + 1, last - _HORIZON)
    minute = _search(schedule, last, first, zone, step=-1)
    return None if minute is None else minute * _MINUTE


def _search(calendar: Calendar, begin: int, end: int, zone: tzinfo, *, step: int) -> int | None:
    """The first matching minute (since 1970, UTC) on the way from `begin` to `end`, both included."""
    minute = begin
    while (end - minute) * step >= 0:
        local = datetime.fromtimestamp(minute * _MINUTE, zone)
        jump = _mismatch(calendar, local, step)
        if jump == 0:
            return minute
        minute = _same_offset(minute, minute + jump * step, local, zone, step=step)
    return None


def _mismatch(calendar: Calendar, local: datetime, step: int) -> int:
    """How many minutes on there could be a match, as long as the offset stays the same; 0: this is one."""
    weekday = (local.weekday() + 1) % 7
    if local.month not in calendar.months or not calendar.day_matches(day=local.day, weekday=weekday):
        of_day = local.hour * 60 + local.minute
        return _DAY - of_day if step > 0 else of_day + 1
    if local.hour not in calendar.hours:
        return 60 - local.minute if step > 0 else local.minute + 1
    if local.minute in calendar.minutes:
        return 0
    if step > 0:
        return min((m for m in calendar.minutes if m > local.minute), default=60) - local.minute
    return local.minute - max((m for m in calendar.minutes if m < local.minute), default=-1)


def _same_offset(begin: int, end: int, local: datetime, zone: tzinfo, *, step: int) -> int:
    """`end`, or the first minute on the way there whose offset from UTC differs from that of `begin`."""
    offset = local.utcoffset()
    if _offset(end, zone) == offset:
        return end
    same, other = begin, end
    while (other - same) * step > 1:
        middle = (same + other) // 2
        if _offset(middle, zone) == offset:
            same = middle
        else:
            other = middle
    return other


def _offset(minute: int, zone: tzinfo) -> timedelta | None:
    return datetime.fromtimestamp(minute * _MINUTE, zone).utcoffset()
