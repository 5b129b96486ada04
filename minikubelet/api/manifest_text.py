"""A manifest file's bytes to text that a YAML parser can be given, or one plain message why there is none.

Called by `documents`. What is binary, encoded otherwise or too big is found here, before any parser sees it.
"""

from __future__ import annotations

import json
import re

#: Ten mebibytes, as in the kubelet (IN-1); a file of exactly that size is refused (LC 12.1).
MAX_BYTES = 10 * 1024 * 1024
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


class UnreadableError(Exception):
    """The rest of the file cannot be understood. `discreet` is the message without what stands in the file."""

    def __init__(self, message: str, line: int, *, discreet: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.discreet = discreet or message


def text_of(data: bytes) -> str:
    """The text of a file.

    Raises UnreadableError: it is not text in UTF-8, has characters that do not belong into text, or is too big.
    """
    if len(data) >= MAX_BYTES:
        raise UnreadableError(f"the file has {len(data)} bytes; a manifest has to be smaller than {MAX_BYTES}", 1)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("the file is encoded as UTF-16 or UTF-32; save it as UTF-8", 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\x00" in data:
            raise UnreadableError("the file is binary, not YAML or JSON text", 1) from error
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the text is not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        raise UnreadableError(message, line) from error
    if control := _CONTROL.search(text):
        if "\x00" in text:
            raise UnreadableError("the file is binary, not YAML or JSON text", 1)
        line = text.count("\n", 0, control.start()) + 1
        raise UnreadableError(f"the control character U+{ord(control[0]):04X} is not allowed; remove it", line)
    return text


def check_json(text: str) -> None:
    """Raises UnreadableError: the text is not JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"not valid JSON: {error.msg}", error.lineno) from error
    except (RecursionError, ValueError) as error:  # the latter for a number of thousands of digits
        raise UnreadableError("not valid JSON: it is nested too deeply or has too long a number", 1) from error


def without_surrogates(text: str) -> str:
    """JSON writes characters beyond the 16 bits of one escape as two, which YAML does not know."""

    def character(match: re.Match[str]) -> str:
        high, low = int(match[2], 16), int(match[3], 16)
        return match[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))

    return _SURROGATE_PAIR.sub(character, text)
