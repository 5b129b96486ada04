"""Reads the configuration: a YAML file, and flags that override it.

`load` is called by the commands. Reading is strict: every unknown key, wrong type and bad value is told with its line,
all at once. What types cannot say is checked by `config_checks`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from minikubelet.api import durations
from minikubelet.api.documents import Mapping as MappingNode
from minikubelet.api.documents import Node, Scalar, Sequence, read_documents
from minikubelet.config import Config, Seconds, Section
from minikubelet.config_checks import problems_of


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has everything that is wrong with it, a line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(file: Path | None, *, overrides: Mapping[str, tuple[str, Any]] | None = None) -> Config:
    """Read `file` (None: only defaults). `overrides`: key -> (the flag that sets it, value); they win over the file.

    Raises ConfigError with everything that is wrong.
    """
    problems = _Problems()
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = parse(file.read_bytes(), name=str(file), problems=problems)
        except OSError as error:
            raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from error
    types = get_type_hints(Config, include_extras=True)
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(Config)}
    for key, (flag, value) in (overrides or {}).items():
        problems.places[key] = flag
        values[fields[key]] = problems.converted(value, types[fields[key]], key)
    if not problems.found:
        config = Config(**values)
        for key, message in problems_of(config):
            problems.add(key, message)
    if problems.found:
        raise ConfigError(problems.found)
    return config


class _Problems:
    """Collects what is wrong, with where each key came from."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.places: dict[str, str] = {}

    def add(self, key: str, message: str) -> None:
        place = self.places.get(key, "")
        self.found.append(f"{place}{': ' if place else ''}{key}: {message}")

    def converted(self, value: Any, type_: Any, key: str) -> Any:
        """`value` as a `type_`; None, and a problem, when it cannot be."""
        try:
            if type_ == Seconds:
                return durations.parse(str(value))
            return msgspec.convert(value, type_, dec_hook=lambda own, text: own(str(text)))
        except (msgspec.ValidationError, durations.DurationError) as error:
            self.add(key, str(error).replace(" - at `$", " - at `" + key).replace("`", ""))
        return None


def parse(data: bytes, *, name: str, problems: _Problems) -> dict[str, Any]:
    """The values that the file sets, by attribute of `Config`; what is wrong goes to `problems`."""
    read = read_documents(data, is_json=name.endswith(".json"))
    problems.found += [f"{name}:{e.line}: {e.path + ': ' if e.path else ''}{e.message}" for e in read.errors]
    if len(read.documents) > 1:
        problems.found.append(f"{name}: has {len(read.documents)} documents; the configuration is a single one")
    if not read.documents:
        return {}
    root = read.documents[0].root
    if not isinstance(root, MappingNode):
        problems.found.append(f"{name}:{root.line}: the configuration has to be a mapping of keys to values")
        return {}
    return _section(root, Config, name=name, prefix="", problems=problems)


def _section(node: MappingNode, type_: type[Section], *, name: str, prefix: str, problems: _Problems) -> dict[str, Any]:
    types = get_type_hints(type_, include_extras=True)
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(type_)}
    values: dict[str, Any] = {}
    for key, child in node.items.items():
        path = prefix + key
        problems.places[path] = f"{name}:{node.lines[key]}"
        if key not in fields:
            close = difflib.get_close_matches(key, fields, n=1)
            problems.add(path, "unknown key" + (f"; did you mean {prefix}{close[0]}?" if close else ""))
            continue
        wanted = types[fields[key]]
        if isinstance(wanted, type) and issubclass(wanted, Section):
            if isinstance(child, MappingNode):
                inner = _section(child, wanted, name=name, prefix=f"{path}.", problems=problems)
                values[fields[key]] = None if None in inner.values() else wanted(**inner)
            else:
                problems.add(path, "has to be a mapping of keys to values")
        else:
            values[fields[key]] = problems.converted(_plain(child), wanted, path)
    return values


def _plain(node: Node) -> Any:
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [_plain(item) for item in node.items]
        case MappingNode():
            return {key: _plain(item) for key, item in node.items.items()}
