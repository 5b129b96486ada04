"""`$(VAR)` in command, args and env values (CC-6). Pure text; whoever builds a container gives the variables."""

from __future__ import annotations

import re
from collections.abc import Mapping

#: `$$`, or `$(` up to the next `)`. A reference without its end, a bare `$x` and a final `$` are no matches.
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with each `$(NAME)` replaced by its value, in one pass.

    `$$` gives `$`; the name of an unknown variable is left as it is written; values are not expanded again.
    """

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] else variables.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text) if "$" in text else text


def references(text: str) -> list[str]:
    """The names that the text refers to, in their order."""
    return [match[2] for match in _REFERENCE.finditer(text) if not match[1]]
