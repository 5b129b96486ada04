"""Text of a manifest file to documents: plain trees of which every node knows its line.

Only this module and `scalars` know YAML. PyYAML's C parser gives the events; the tree is built here, without recursion,
so that depth, aliases and size are bounded, duplicate keys are seen, and words mean what Kubernetes takes them to mean.
Called by `decode`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import yaml

from minikubelet.api.manifest_text import UnreadableError, check_json, text_of, without_surrogates
from minikubelet.api.scalars import Scalar as Value
from minikubelet.api.scalars import quoted, resolve

MAX_DEPTH = 64
#: How many nodes the aliases of one document may stand for, all together.
MAX_ALIASED_NODES = 100_000

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: A file in which a Secret may stand: what is said of its text must not repeat a part of it.
_SECRET = re.compile(r"""\bkind["']?\s*:\s*["']?Secret\b""")
_TAGS = {"str", "int", "bool", "float", "null"}
_PREFIX = "tag:yaml.org,2002:"


_UNKNOWN_TAG = "a tag is not understood, or does not fit its value; write a value that begins with ! in quotes"
_TEMPLATE = "; this looks like a template: put here what it renders to (for a chart: helm template)"
_UNKNOWN_ALIAS = "an alias has no anchor before it; write a value that begins with * in quotes"


class Scalar(msgspec.Struct):
    line: int
    value: Value
    #: As written, without quotes.
    text: str


class Sequence(msgspec.Struct):
    line: int
    items: list[Node] = []
    size: int = 1


class Mapping(msgspec.Struct):
    line: int
    items: dict[str, Node] = {}
    #: The line of each key.
    lines: dict[str, int] = {}
    size: int = 1


Node = Scalar | Sequence | Mapping


class TextError(msgspec.Struct, frozen=True):
    """Something that makes text no good document. `path` is where it is known."""

    line: int
    document: int
    path: str
    message: str


class Document(msgspec.Struct, frozen=True):
    #: Counted from 1, empty documents included.
    number: int
    root: Node


class Documents(msgspec.Struct, frozen=True):
    documents: tuple[Document, ...]
    errors: tuple[TextError, ...]


def read_documents(data: bytes, *, is_json: bool = False) -> Documents:
    """The documents of a file and what is wrong with its text; never raises for any bytes.

    A document with a duplicate key is returned too, so that its other errors are found in the same go. After an error
    of syntax the rest of the file is not read.
    """
    documents: list[Document] = []
    errors: list[TextError] = []
    number = 1
    text = ""
    try:
        text = text_of(data)
        if is_json:
            check_json(text)
        if text.lstrip()[:1] in ("{", "["):  # JSON, in whatever file
            text = without_surrogates(text)
        events = _events(text)
        for number, first in enumerate(events, start=1):
            composer = _Composer(number)
            root = composer.compose(first, events)
            errors += composer.errors
            if not (isinstance(root, Scalar) and root.value is None):
                documents.append(Document(number, root))
    except UnreadableError as error:
        message = error.discreet if _SECRET.search(text) else str(error)
        if "{{" in _line(text, error.line - 1):
            message += _TEMPLATE
        errors.append(TextError(error.line, number, "", message))
    return Documents(tuple(documents), tuple(errors))


def _events(text: str) -> Iterator[yaml.Event]:
    """The events that begin or end something, document and stream marks left out."""
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                yield event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = f"not valid YAML: {error.problem or error.context}"
        if error.context and error.problem:
            began = error.context_mark
            where = f" that begins in line {began.line + 1}" if began and mark and began.line != mark.line else ""
            message += f" ({error.context}{where})"
        if mark is not None and "\t" in _line(text, mark.line)[: mark.column + 1]:
            message += "; tabs cannot indent YAML, use spaces"
        raise UnreadableError(message, mark.line + 1 if mark is not None else 1) from error
    except yaml.YAMLError as error:
        raise UnreadableError(f"not valid YAML: {' '.join(str(error).split())}", 1) from error


def _line(text: str, index: int) -> str:
    lines = text.splitlines()
    return lines[index] if index < len(lines) else ""


class _Frame(msgspec.Struct):
    """A collection that is being read."""

    node: Sequence | Mapping
    anchor: str | None
    #: Where it is in the document, for messages: a name or an index in its parent.
    place: str
    key: str | None = None
    key_line: int = 0
    merges: list[Mapping] = []


class _Composer:
    """Builds the tree of one document."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.errors: list[TextError] = []
        self._frames: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._aliased = 0

    def compose(self, event: yaml.Event, events: Iterator[yaml.Event]) -> Node:
        frames = self._frames
        while True:
            line = event.start_mark.line + 1 if event.start_mark else 0
            node: Node
            if isinstance(event, yaml.ScalarEvent):
                node = _scalar(event, line)
                if event.anchor:
                    self._anchors[event.anchor] = node
            elif isinstance(event, yaml.AliasEvent):
                node = self._alias(event.anchor or "", line)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event, line)
                event = next(events)
                continue
            else:
                node = self._close()
            if not frames:
                return node
            self._add(frames[-1], node, line)
            event = next(events)

    def _open(self, event: yaml.CollectionStartEvent, line: int) -> None:
        if len(self._frames) >= MAX_DEPTH:
            raise UnreadableError(f"nested more than {MAX_DEPTH} levels deep", line)
        if event.tag not in (None, "!", _PREFIX + "map", _PREFIX + "seq"):
            raise UnreadableError(f"the tag {event.tag} is not understood; remove it", line, discreet=_UNKNOWN_TAG)
        place = ""
        if self._frames:
            parent = self._frames[-1]
            if isinstance(parent.node, Sequence):
                place = f"[{len(parent.node.items)}]"
            elif parent.key is None:
                raise UnreadableError("a key has to be a plain text", line)
            else:
                place = parent.key
        node = Mapping(line) if isinstance(event, yaml.MappingStartEvent) else Sequence(line)
        self._frames.append(_Frame(node, event.anchor, place))

    def _close(self) -> Node:
        frame = self._frames.pop()
        node = frame.node
        if isinstance(node, Mapping):
            for merged in frame.merges:  # the first one that has a key wins, after the mapping's own keys
                for key, value in merged.items.items():
                    if key not in node.items:
                        node.items[key] = value
                        node.lines[key] = merged.lines[key]
                        node.size += 1 if isinstance(value, Scalar) else value.size
        if frame.anchor:
            self._anchors[frame.anchor] = node
        return node

    def _alias(self, name: str, line: int) -> Node:
        if any(frame.anchor == name for frame in self._frames):
            message = f"the alias *{name} stands inside its own anchor &{name}"
            raise UnreadableError(message, line, discreet="an alias stands inside its own anchor")
        if name not in self._anchors:
            message = f"the alias *{name} has no anchor &{name} before it"
            raise UnreadableError(message, line, discreet=_UNKNOWN_ALIAS)
        node = self._anchors[name]
        self._aliased += 1 if isinstance(node, Scalar) else node.size
        if self._aliased > MAX_ALIASED_NODES:
            raise UnreadableError(f"the document's aliases stand for more than {MAX_ALIASED_NODES} nodes", line)
        return node

    def _add(self, frame: _Frame, node: Node, line: int) -> None:
        parent = frame.node
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif frame.key is None:
            frame.key, frame.key_line = self._key(node, line), line
            return
        else:
            key, frame.key = frame.key, None
            if key == "<<":
                frame.merges += self._merged(node, line)
            elif key in parent.items:
                message = f"Duplicate key: already given in line {parent.lines[key]}"
                self.errors.append(TextError(frame.key_line, self.number, self._path(key), message))
            else:
                parent.items[key] = node
                parent.lines[key] = frame.key_line
        parent.size += 1 if isinstance(node, Scalar) else node.size

    def _key(self, node: Node, line: int) -> str:
        if not isinstance(node, Scalar):
            raise UnreadableError("a key has to be a plain text", line)
        if isinstance(node.value, str):
            return node.value
        if isinstance(node.value, bool) or str(node.value) != node.text:
            kind = "a boolean" if isinstance(node.value, bool) else "null or a number"
            message = f"Invalid key: YAML reads {node.text or 'an empty key'} as {kind}; write it in quotes"
            self.errors.append(TextError(line, self.number, self._path(node.text), message))
        return node.text

    def _merged(self, node: Node, line: int) -> list[Mapping]:
        nodes = node.items if isinstance(node, Sequence) else [node]
        mappings = [each for each in nodes if isinstance(each, Mapping)]
        if len(mappings) != len(nodes):
            raise UnreadableError("the merge key << takes a mapping or a list of mappings", line)
        return mappings

    def _path(self, key: str) -> str:
        path = ""
        for place in (*(frame.place for frame in self._frames), key):
            path += place if place.startswith("[") or not path else f".{place}"
        return path


def _scalar(event: yaml.ScalarEvent, line: int) -> Scalar:
    text: str = event.value
    tag: str | None = event.tag
    if tag is None:
        return Scalar(line, text if event.style else resolve(text), text)
    if tag == "!" or tag == _PREFIX + "str":
        return Scalar(line, text, text)
    name = tag.removeprefix(_PREFIX)
    value = resolve(text)
    fits = {"int": type(value) is int, "bool": isinstance(value, bool), "null": value is None}
    if name == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        return Scalar(line, float(value), text)
    if not fits.get(name, False):
        short = quoted(text if len(text) <= 60 else text[:57] + "...")
        problem = f"{short} is no {name}" if name in _TAGS else "the tag is not understood; remove it"
        raise UnreadableError(f"{tag.replace(_PREFIX, '!!')}: {problem}", line, discreet=_UNKNOWN_TAG)
    return Scalar(line, value, text)
