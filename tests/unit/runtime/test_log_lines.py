"""Lines of a container's log file (LG-1)."""

from __future__ import annotations

import pytest

from minikubelet.runtime.log_lines import Joiner

AT = b"2026-01-01T00:00:00.1Z"


@pytest.mark.parametrize(
    ("lines", "shown", "rest"),
    [
        pytest.param([b"stdout F one", b"stderr F two"], [b"one", b"two"], [], id="LG-1 both streams"),
        pytest.param([b"stdout F "], [b""], [], id="LG-1 an empty line"),
        pytest.param([b"stdout F:more a  b"], [b"a  b"], [], id="LG-1 further tags, blanks of the text"),
        pytest.param([b"stdout P a", b"stdout P b", b"stdout F c"], [b"abc"], [], id="LG-1 partial lines are joined"),
        pytest.param(
            [b"stdout P a", b"stderr F e", b"stdout F b"], [b"e", b"ab"], [], id="LG-1 each stream for itself"
        ),
        pytest.param([b"stdout P a"], [], [b"a"], id="LG-1 what never ends is given at the end"),
        pytest.param([b"stdin F a", b"stdout X a", b"", b"stdout"], [], [], id="LG-1 what is no such line is skipped"),
    ],
)
def test_lines(lines: list[bytes], shown: list[bytes], rest: list[bytes]) -> None:
    joiner = Joiner()
    assert [text for line in lines if (text := joiner.take(AT + b" " + line)) is not None] == shown
    assert joiner.rest() == rest
    assert joiner.rest() == []
