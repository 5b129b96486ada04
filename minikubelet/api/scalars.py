"""What a bare word of a manifest means: YAML 1.1 as Kubernetes reads it (IN-2).

`y`, `no` and `on` are booleans, `0644` is octal, `1e3` is a number, `22:22` and dates stay text. PyYAML's own resolver
differs in most of these, so it is not used.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **{form: True for word in ("y", "yes", "on", "true") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "off", "false") for form in (word, word.capitalize(), word.upper())},
    **{form: float("nan") for form in (".nan", ".NaN", ".NAN")},
    **{sign + form: float(sign + "inf") for sign in ("", "+", "-") for form in (".inf", ".Inf", ".INF")},
}
_NUMBER_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"(?P<sign>[+-]?)0(?P<base>[xX]|[bB]|[oO]?)(?P<digits>[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[+-]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"x": 16, "b": 2, "o": 8, "": 8}
#: A longer row of digits is a text that happens to consist of digits.
_LONGEST_NUMBER = 64


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _LONGEST_NUMBER:
        return text
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        return int(plain)
    if based := _BASED.fullmatch(plain):
        try:
            return int(based["sign"] + based["digits"], _BASES[based["base"].lower()])
        except ValueError:
            pass  # such as 08 or 0b2: perhaps a decimal fraction
    return float(plain) if _FLOAT.fullmatch(plain) else text


def describe(value: Scalar, text: str) -> str:
    """A scalar as an error message names it, e.g. `the boolean yes` or `the string "8080"`."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {text}"
        case int() | float():
            return f"the number {text}"
        case str():
            shortened = value if len(value) <= 60 else value[:57] + "..."
            return f"the string {quoted(shortened)}"


def quoted(text: str) -> str:
    """Text between double quotes, as Kubernetes' messages show it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'
