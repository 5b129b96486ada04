"""Printing for people: what others have written (a container's last words, a file's name) must not steer a terminal.

All commands print with `say`, but for what is for programs (`-o json`, `-o yaml`) and for `logs`, which shows a
container's output as it is.
"""

from __future__ import annotations

import re
from typing import IO, Any

import click

#: Control characters but for the tab and the end of a line, and what stands for bytes that are no UTF-8.
_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def say(text: str, *, err: bool = False, file: IO[Any] | None = None) -> None:
    """A line, or several, on standard output, with `err` on standard error."""
    click.echo(plain(text), err=err, file=file)


def plain(text: str) -> str:
    r"""The text with control characters as Python writes them (`\x1b`), so that they do nothing."""
    return _STEERS.sub(lambda found: ascii(found[0])[1:-1], text)
