"""Tree of a document to typed object: for each struct a reader is built once from its type annotations.

Nothing stops at the first problem: a field that cannot be read is noted and left out, and reading goes on. The marks of
`support` are acted upon here: refused fields are problems, accepted ones are noted. Called by `decode`.
"""

from __future__ import annotations

import difflib
import functools
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from minikubelet.api import quantity
from minikubelet.api.base import Concealed, IntRange, Object, QuantityText
from minikubelet.api.documents import Mapping, Node, Scalar, Sequence
from minikubelet.api.misplaced import meant_place
from minikubelet.api.scalars import describe, quoted
from minikubelet.api.support import Level, Mark, mark_of


class Finding(msgspec.Struct, frozen=True):
    line: int
    path: str
    message: str


class Findings(msgspec.Struct):
    """What reading one document brought to light."""

    problems: list[Finding] = []
    notes: list[Finding] = []
    #: What the document is.
    root: type[Object] | None = None

    def problem(self, node: Node, path: str, message: str) -> None:
        self.problems.append(Finding(node.line, path, message))


#: Guessing what was meant takes time, and nobody needs it after that many problems.
_MOST_GUESSES = 100

#: How alike two names are, from 0 to 1, of which one is the other with a slip in it.
_SURELY_MISSPELT = 0.85
#: So many fields of an object are named to whoever has written something else.
_MOST_FIELDS = 4

#: Stands for a value that could not be read.
FAILED: Any = object()

Reader = Callable[[Node, str, Findings], Any]


def read(cls: type[Object], node: Node, findings: Findings) -> Any:
    """The object that a document's tree describes, as far as it can be read; FAILED if it is no mapping at all."""
    findings.root = cls
    return reader_of(cls)(node, "", findings)


@functools.cache
def reader_of(annotation: Any) -> Reader:
    """The function that reads values of a type."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        extra = arguments[1]
        if isinstance(extra, IntRange):
            return functools.partial(_read_integer, extra)
        if isinstance(extra, Concealed):
            return functools.partial(_read_concealed, reader_of(arguments[0]))
        return _read_quantity if isinstance(extra, QuantityText) else reader_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return _read_integer_or_text if kinds == [int, str] else reader_of(kinds[0])
    if origin is tuple:
        return functools.partial(_read_sequence, reader_of(arguments[0]), zero_of(arguments[0]))
    if origin is dict:
        return functools.partial(_read_map, reader_of(arguments[1]), zero_of(arguments[1]))
    if annotation is Any:
        return lambda node, _path, _findings: plain(node)
    if issubclass(annotation, Object):
        return _StructReader(annotation)
    return {str: _read_text, bool: _read_boolean}[annotation]


@functools.cache
def zero_of(annotation: Any) -> Any:
    """What Go has where nothing is written: the value of a missing field that has no default of its own."""
    if typing.get_origin(annotation) is typing.Annotated:
        return zero_of(typing.get_args(annotation)[0])
    if annotation is str:
        return ""
    if typing.get_origin(annotation) is tuple:
        return ()
    if isinstance(annotation, type) and issubclass(annotation, Object):
        fields = msgspec.structs.fields(annotation)
        return annotation(**{field.name: zero_of(field.type) for field in fields if field.required})
    return 0 if annotation is int or int in typing.get_args(annotation) else None


def plain(node: Node) -> Any:
    """The tree as lists, dicts and scalars."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.items.items()}


class _Field(msgspec.Struct, frozen=True):
    attribute: str
    reader: Reader
    mark: Mark
    default: Any


class _StructReader:
    def __init__(self, cls: type[Object]) -> None:
        self._cls = cls
        self._zeros: dict[str, Any] = {}
        self._types: dict[str, Any] = {}
        self._fields: dict[str, _Field] = {}
        tag_field = cls.__struct_config__.tag_field
        self._ignored = {tag_field} if tag_field else set()
        for field in msgspec.structs.fields(cls):
            if field.required:
                default = self._zeros[field.name] = zero_of(field.type)
            elif field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            else:
                default = field.default
            self._types[field.encode_name] = field.type
            self._fields[field.encode_name] = _Field(field.name, _lazily(field.type), mark_of(field.type), default)

    def __call__(self, node: Node, path: str, findings: Findings) -> Any:
        if not isinstance(node, Mapping):
            return _mismatch("an object", node, path, findings, hint=self._shape(node))
        values = dict(self._zeros)
        for key, child in node.items.items():
            field = self._fields.get(key)
            if field is None:
                if key not in self._ignored:
                    findings.problems.append(
                        Finding(node.lines[key], _join(path, key), self._unknown(key, path, findings))
                    )
                continue
            if isinstance(child, Scalar) and child.value is None:
                continue  # as good as absent
            own_path = _join(path, key)
            if field.mark.level is Level.REFUSED and (field.mark.even_empty or not self._is_default(field, child)):
                findings.problems.append(Finding(node.lines[key], own_path, f"Forbidden: {field.mark.reason}"))
                continue
            if not field.mark.keep:
                if isinstance(child, Mapping) and not child.items:
                    continue  # as `kubectl create --dry-run` prints `status: {}`
                findings.notes.append(Finding(node.lines[key], own_path, field.mark.reason))
                continue
            value = field.reader(child, own_path, findings)
            if value is FAILED:
                continue
            if field.mark.level is Level.ACCEPTED and value != field.default:
                findings.notes.append(Finding(node.lines[key], own_path, field.mark.reason))
            values[field.attribute] = value
        return self._cls(**values)

    def _shape(self, node: Node) -> str:
        """How to write it, for whoever has not written an object."""
        if isinstance(node, Sequence):
            return "; leave out the dash" if len(node.items) == 1 else ""
        names = [name for name, field in self._fields.items() if field.mark.level is not Level.REFUSED]
        return f"; its fields are {', '.join(names[:_MOST_FIELDS])}{', ...' if len(names) > _MOST_FIELDS else ''}"

    def _is_default(self, field: _Field, node: Node) -> bool:
        if isinstance(node, Scalar):
            return node.value == field.default or (node.value in ("", False) and field.default is None)
        return not node.items

    def _unknown(self, key: str, path: str, findings: Findings) -> str:
        if len(findings.problems) > _MOST_GUESSES:
            return "Unknown field"
        by_lower_case = {name.lower(): name for name in self._fields}
        close = difflib.get_close_matches(key.lower(), by_lower_case, n=1, cutoff=0.7)
        misspelt = bool(close) and difflib.SequenceMatcher(None, key.lower(), close[0]).ratio() >= _SURELY_MISSPELT
        if not misspelt and findings.root is not None and (meant := meant_place(findings.root, key, path)):
            return f"Unknown field here: did you mean {meant}"
        return "Unknown field" + (f": did you mean {by_lower_case[close[0]]}?" if close else "")


def _lazily(annotation: Any) -> Reader:
    """A reader that is built when it is first used, so that building one struct's does not build them all."""

    def read_value(node: Node, path: str, findings: Findings) -> Any:
        return reader_of(annotation)(node, path, findings)

    return read_value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _mismatch(expected: str, node: Node, path: str, findings: Findings, *, hint: str = "") -> Any:
    if isinstance(node, Scalar):
        found = describe(node.value, node.text)
    else:
        found = "a list" if isinstance(node, Sequence) else "an object"
    findings.problem(node, path, f"Invalid type: expected {expected}, found {found}{hint}")
    return FAILED


def _read_text(node: Node, path: str, findings: Findings) -> Any:
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            return node.value
        if node.value is None:
            return ""
        return _mismatch("a string", node, path, findings, hint=f"; write it in quotes: {quoted(node.text)}")
    return _mismatch("a string", node, path, findings)


def _read_boolean(node: Node, path: str, findings: Findings) -> Any:
    if isinstance(node, Scalar):
        if isinstance(node.value, bool):
            return node.value
        if isinstance(node.value, str) and node.value.lower() in ("true", "false"):
            return _mismatch("a boolean", node, path, findings, hint="; write it without quotes")
    return _mismatch("a boolean", node, path, findings)


def _read_integer(bounds: IntRange, node: Node, path: str, findings: Findings) -> Any:
    if isinstance(node, Scalar):
        value = node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if bounds.lowest <= value <= bounds.highest:
                return value
            message = f"Invalid value: {node.text}: does not fit into {bounds.bits} bits"
            findings.problem(node, path, message)
            return FAILED
        if isinstance(value, str) and value.lstrip("+-").isdecimal():
            return _mismatch("a whole number", node, path, findings, hint="; write it without quotes")
    return _mismatch("a whole number", node, path, findings)


def _read_integer_or_text(node: Node, path: str, findings: Findings) -> Any:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return _read_integer(IntRange(32), node, path, findings)
    return _mismatch("a whole number or a name", node, path, findings)


def _read_quantity(node: Node, path: str, findings: Findings) -> Any:
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or node.value is None:
        return _mismatch("a quantity", node, path, findings)
    text = str(node.value) if isinstance(node.value, int) else node.text
    try:
        quantity.parse(text)
    except quantity.QuantityError as error:
        findings.problem(node, path, f"Invalid value: {quoted(node.text)}: {error}")
        return FAILED
    return text


def _read_concealed(reader: Reader, node: Node, path: str, findings: Findings) -> Any:
    """As the reader does, but what it found instead of the expected is not told."""
    found = Findings()
    value = reader(node, path, found)
    for each in found.problems:
        expected = each.message.partition(", found ")[0]
        hint = "; write each value in quotes" if expected.endswith("a string") else ""
        findings.problems.append(Finding(each.line, each.path, f"{expected}{hint} (what is there is not shown)"))
    return value


def _read_sequence(reader: Reader, zero: Any, node: Node, path: str, findings: Findings) -> Any:
    if not isinstance(node, Sequence):
        hint = "; write a list: each item on a line of its own, after a dash"
        return _mismatch("a list", node, path, findings, hint=hint)
    values = [reader(item, f"{path}[{index}]", findings) for index, item in enumerate(node.items)]
    return tuple(zero if value is FAILED else value for value in values)  # zero keeps the indices of the others


def _read_map(reader: Reader, zero: Any, node: Node, path: str, findings: Findings) -> Any:
    if not isinstance(node, Mapping):
        return _mismatch("an object", node, path, findings)
    values = {key: reader(item, f"{path}[{key}]", findings) for key, item in node.items.items()}
    return {key: zero if value is FAILED else value for key, value in values.items()}
