"""How validation says what is wrong: path, kind, value, detail in Kubernetes' words (VA-1).

Every check of `validation/` returns these; `decode` adds file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from minikubelet.api.scalars import quoted


class Problem(msgspec.Struct, frozen=True):
    path: str
    message: str
    #: Where it really is, if the reference's path is less exact; only for finding the line.
    place: str = ""


Problems = Iterator[Problem]


def located(problems: Problems, place: str) -> Problems:
    """The same problems, which are really there: see `Problem.place`."""
    for problem in problems:
        yield Problem(problem.path, problem.message, place)


#: A value of more characters is cut in a message.
_LONGEST_SHOWN = 1000


def required(path: str, detail: str = "") -> Problem:
    return Problem(path, _with_detail("Required value", detail))


def forbidden(path: str, detail: str) -> Problem:
    return Problem(path, _with_detail("Forbidden", detail))


def invalid(path: str, value: object, detail: str, *, place: str = "") -> Problem:
    return Problem(path, _with_detail(f"Invalid value: {shown_value(value)}", detail), place)


def duplicate(path: str, value: object) -> Problem:
    return Problem(path, f"Duplicate value: {shown_value(value)}")


def not_found(path: str, value: object) -> Problem:
    return Problem(path, f"Not found: {shown_value(value)}")


def too_long(path: str, most_bytes: int) -> Problem:
    return Problem(path, f"Too long: may not be more than {most_bytes} bytes")


def too_many(path: str, count: int, most: int) -> Problem:
    return Problem(path, f"Too many: {count}: must have at most {most} items")


def unsupported(path: str, value: object, supported: Iterable[str]) -> Problem:
    """`supported` in the order in which it is to be shown."""
    names = ", ".join(quoted(name) for name in supported)
    return Problem(path, f"Unsupported value: {shown_value(value)}: supported values: {names}")


def shown_value(value: object) -> str:
    if isinstance(value, str):
        return quoted(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "...")
    if isinstance(value, bool | int):
        return str(value).lower()
    return msgspec.json.encode(value).decode()


def _with_detail(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind
