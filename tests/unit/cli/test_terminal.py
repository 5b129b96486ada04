"""Nothing that others have written steers the terminal of whoever looks at it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minikubelet import cli
from minikubelet.cli.terminal import plain

#: They print what is for programs, a container's own output, or nothing but constants.
RAW = {"terminal.py": 1, "get.py": 1, "logs.py": 3, "version.py": 1}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\tits second line", "plain text\n\tits second line"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("\x1b[2J\x1b[1;1H", r"\x1b[2J\x1b[1;1H"),
        ("over\rwritten", r"over\rwritten"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f\x00", r"\x7f\x00"),
        ("name \udcff.tar", r"name \udcff.tar"),
        ("grüße, 世界 🙂", "grüße, 世界 🙂"),
    ],
)
def test_control_characters_are_shown_instead_of_done(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_commands_print_by_no_other_way() -> None:
    found = {
        file.name: count
        for file in Path(cli.__file__).parent.glob("*.py")
        if (count := len(re.findall(r"\bclick\.(?:echo|secho)\(|\bprint\(", file.read_text())))
    }
    assert found == RAW
