"""The lines of a container's log file, as the runtime writes them (LG-1). Pure."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    stream: bytes
    text: bytes
    #: False: what the container wrote goes on with the next line of the same stream.
    whole: bool


def parsed(raw: bytes) -> Line | None:
    """`<time> <stream> <tag>[:tags] <text>`, without its line feed; None for anything else, which is passed over."""
    _, _, rest = raw.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, _, text = rest.partition(b" ")
    if stream not in (b"stdout", b"stderr") or tag[:1] not in (b"F", b"P"):
        return None
    return Line(stream, text, tag[:1] == b"F")


class Joiner:
    """Puts together what the runtime has cut: long lines, each stream's for itself."""

    def __init__(self) -> None:
        self._begun: dict[bytes, bytearray] = {}

    def take(self, raw: bytes) -> bytes | None:
        """The line that this one of the file completes, if it does, without its line feed."""
        if (line := parsed(raw)) is None:
            return None
        begun = self._begun.setdefault(line.stream, bytearray())
        begun += line.text
        return bytes(self._begun.pop(line.stream)) if line.whole else None

    def rest(self) -> list[bytes]:
        """What was begun and will not be completed any more."""
        begun, self._begun = self._begun, {}
        return [bytes(text) for text in begun.values()]
