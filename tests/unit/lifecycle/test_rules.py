"""Every numbered rule that this room carries out has a test that names it, and every upstream scenario is played."""

from __future__ import annotations

import re
from pathlib import Path

#: The rules of LC that are decided here. What is not listed is done by another room, or is not copied from the kubelet.
_RULES = """
1.3.4 1.3.5 1.3.6 1.3.7 1.3.8
3.1.1 3.1.2 3.1.3 3.1.4 3.1.5 3.2.1 3.2.2 3.2.3 3.2.4 3.2.5 3.2.6 3.3
4.1 4.2.1 4.2.2 4.2.3 4.2.4 4.2.5 4.2.6 4.2.7 4.3 4.4 4.5 4.6
5.1 5.2 5.3 5.4.1 5.4.2 5.4.3 5.4.4
6.1 6.2 6.3 6.5 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 7.9 8.5
9.1 9.2 9.3 9.4
10.1.1 10.1.3 10.1.4 10.2 10.3.1 10.3.2 10.3.3 10.3.4 10.4 10.5.1 10.5.2 10.5.5
11.1 11.2.1 11.2.2 11.2.3 11.2.4 11.2.5 11.2.6 11.3
11.4.1 11.4.2 11.4.3 11.4.4 11.4.5 11.4.6 11.4.7 11.4.8 11.5 11.6.1 11.6.2 11.6.3 11.6.4 11.7
12.5 12.11 16.1 16.2
"""
RULES = _RULES.split()
SCENARIOS = [f"T{number:02}" for number in range(1, 44)] + [f"U{number}" for number in range(1, 11)]

_SOURCES = "\n".join(
    path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py")) if path.name != Path(__file__).name
)


def test_every_rule_is_named_by_a_test() -> None:
    named = set(re.findall(r"LC[- ](\d+(?:\.\d+)*)", _SOURCES))
    named |= {found.replace("_", ".") for found in re.findall(r"def test_lc_(\d+(?:_\d+)*)_", _SOURCES)}
    assert [rule for rule in RULES if rule not in named] == []


def test_every_scenario_is_played() -> None:
    played = set(re.findall(r"\b(T\d\d|U\d+)\b", _SOURCES))
    played |= {found.upper() for found in re.findall(r"def test_(t\d\d|u\d+)_", _SOURCES)}
    assert [scenario for scenario in SCENARIOS if scenario not in played] == []
