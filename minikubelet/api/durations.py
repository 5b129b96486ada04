"""Durations as Go writes them (`1m20s`, `1.5h`, `300ms`), as the configuration and the command line use them."""

from __future__ import annotations

import re
from fractions import Fraction

_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+")


class DurationError(ValueError):
    """The text is no duration."""


def parse(text: str) -> float:
    """Seconds.

    Raises DurationError: the text is not a duration.
    """
    if text.lstrip("+-") == "0" and len(text) <= len("-0"):
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise DurationError(f"{text!r} is not a duration; write a number with a unit, such as 300ms, 10s, 1m30s or 2h")
    seconds = sum((Fraction(number.rstrip(".")) * _SECONDS[unit] for number, unit in _PART.findall(text)), Fraction())
    return float(-seconds if text.startswith("-") else seconds)


def show(seconds: float) -> str:
    """Seconds as Go shows them: `1h0m5s`, `1m20s`, `1.5s`, `300ms`, `0s`. Exact to the nanosecond."""
    nanoseconds = round(abs(Fraction(repr(seconds))) * 10**9)  # by the shortest decimals, as they are written
    sign = "-" if seconds < 0 and nanoseconds else ""
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 10**9:
        unit, size = next((u, s) for u, s in (("ms", 10**6), ("µs", 10**3), ("ns", 1)) if nanoseconds >= s)
        return f"{sign}{_decimal(nanoseconds, size)}{unit}"
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    shown = f"{_decimal(rest, 10**9)}s"
    if hours or minutes:
        shown = f"{minutes}m{shown}"
    return f"{sign}{hours}h{shown}" if hours else f"{sign}{shown}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
