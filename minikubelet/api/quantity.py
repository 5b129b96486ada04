"""Kubernetes quantities (`100m`, `1.5`, `64Mi`, `1e3`), exactly: no float ever touches one.

Used by validation, QoS, admission and by the mapping to CRI, which needs thousandths (cpu) and whole numbers
(memory); both round up, as the reference does.
"""

from __future__ import annotations

import functools
import re
from fractions import Fraction

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}

_SYNTAX = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<suffix>(?:[KMGTPE]i)|[numkMGTPE]|(?:[eE][+-]?[0-9]{1,3}))?"
)
#: Longer texts are no quantities anyone means; the bound keeps a huge number from costing time.
_LONGEST = 64

MILLI = Fraction(1, 1000)


class QuantityError(ValueError):
    """The text is no quantity."""


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The exact value of a quantity.

    Raises QuantityError: the text is not a quantity.
    """
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError("must be a quantity such as 2, 0.5, 100m, 64Mi or 1Gi")
    number, suffix = Fraction(match["number"].rstrip(".")), match["suffix"] or ""
    if suffix in _BINARY:
        return number * Fraction(1024) ** _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** _DECIMAL[suffix]
    return number * Fraction(10) ** int(suffix[1:])


def milli(text: str) -> int:
    """The value in thousandths, rounded up: `milli("0.1") == 100`."""
    return _ceil(parse(text) * 1000)


def whole(text: str) -> int:
    """The value as a whole number, rounded up: `whole("100m") == 1`."""
    return _ceil(parse(text))


def canonical(text: str) -> str:
    """The one way to write a value, as Kubernetes shows it: no fraction, the largest suffix of the family it is in.

    `1000m` -> `1`, `0.5` -> `500m`, `1024Mi` -> `1Gi`, `1500` -> `1500`, `1e3` -> `1e3`.
    Rounded up to thousandths (IN-9).
    """
    match = _SYNTAX.fullmatch(text)
    suffix = (match["suffix"] or "") if match else ""
    value = Fraction(_ceil(parse(text) * 1000), 1000)
    if suffix in _BINARY and value and value % 1024 == 0:
        return _with_binary_suffix(value.numerator)
    return _with_exponent(value) if suffix[:1] in ("e", "E") and suffix != "E" else _with_decimal_suffix(value)


def written(resource: str, value: Fraction) -> str:
    """A value that was computed, as Kubernetes shows it: cpu in powers of ten, bytes in powers of two where that fits.

    Rounded up to thousandths.
    """
    value = Fraction(_ceil(value * 1000), 1000)
    if resource != "cpu" and value and value % 1024 == 0:
        return _with_binary_suffix(value.numerator)
    return _with_decimal_suffix(value)


def _with_binary_suffix(number: int) -> str:
    suffix, power = next(each for each in reversed(_BINARY.items()) if number % 1024 ** each[1] == 0)
    return f"{number // 1024**power}{suffix}"


def _with_decimal_suffix(value: Fraction) -> str:
    for power in range(6, -2, -1):
        scaled = value / Fraction(1000) ** power
        if scaled.denominator == 1 and (scaled or power == 0):
            return f"{scaled.numerator}{_DECIMAL_SUFFIX[power]}"
    raise AssertionError(value)  # a value in whole thousandths always fits


def _with_exponent(value: Fraction) -> str:
    for exponent in range(999, -4, -3):
        scaled = value / Fraction(10) ** exponent
        if scaled.denominator == 1 and (scaled or exponent == 0):
            return f"{scaled.numerator}e{exponent}" if exponent else str(scaled.numerator)
    raise AssertionError(value)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
