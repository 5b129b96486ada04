"""Every rule of what becomes of a Pod has a test that names it; rules.txt lists the rules.

A test names a rule in its name (test_sb_1_...), its docstring, a comment in it or on its line, or the ids of its
parameters, whether they stand in its decorators or in a table of the module that it uses; a manifest of the corpus does
so in a comment. What merely stands at the head of a module counts for nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CORPUS = TESTS / "unit" / "api" / "corpus"
TABLE = Path(__file__).with_name("rules.txt")

_ID = r"(?:[A-Z]{1,3}-\d+|1[234]/[a-z0-9-]+)"
_LINE = re.compile(rf"({_ID})  \S.*")
_WRITTEN = re.compile(rf"(?<![\w/-]){_ID}(?![\w-])")
_IN_A_NAME = re.compile(r"(?<=_)([a-z]{1,3})_(\d+)(?=_|$)")


def rules() -> list[str]:
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    found = [_LINE.fullmatch(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [match[1] for match in found if match]


def named_in(source: str) -> set[str]:
    """The rules that the tests of a module name."""
    tree, lines = ast.parse(source), source.splitlines()
    tables = {
        target.id: ast.get_source_segment(source, node) or ""
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    named: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        first = min((decorator.lineno for decorator in node.decorator_list), default=node.lineno)
        text = "\n".join(lines[first - 1 : node.end_lineno])
        used = {it.id for decorator in node.decorator_list for it in ast.walk(decorator) if isinstance(it, ast.Name)}
        text = "\n".join([text, *(tables[name] for name in used & tables.keys())])
        named |= set(_WRITTEN.findall(text))
        named |= {f"{area.upper()}-{number}" for area, number in _IN_A_NAME.findall(node.name)}
    return named


def test_every_rule_stands_in_the_table_once() -> None:
    assert [rule for rule, times in Counter(rules()).items() if times > 1] == []


def test_every_rule_has_a_test_that_names_it() -> None:
    named = {
        rule for path in TESTS.rglob("*.py") if path.name != Path(__file__).name for rule in named_in(path.read_text())
    }
    for path in CORPUS.glob("*.yaml"):
        comments = [line for line in path.read_text(errors="replace").splitlines() if line.startswith("#")]
        named |= {rule for line in comments for rule in _WRITTEN.findall(line)}
    assert [rule for rule in rules() if rule not in named] == []


@pytest.mark.parametrize(
    "source",
    [
        "def test_sb_1_and_more(): pass",
        "async def test_of_sb_1(): pass",
        "def test_a():  # SB-1, IN-2\n    pass",
        'def test_a():\n    "SB-1: so it is."',
        '@given([param(1, id="SB-1 so")])\ndef test_a(): pass',
        'CASES = [param(1, id="SB-1 so")]\n@given(CASES)\ndef test_a(): pass',
        'class TestIt:\n    def test_a(self):\n        "SB-1"',
    ],
)
def test_a_test_names_a_rule(source: str) -> None:
    assert "SB-1" in named_in(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""SB-1"""\ndef test_a(): pass',
        "def helper():  # SB-1\n    pass",
        'CASES = ["SB-1"]\ndef test_a(): pass',
        "def test_sb_10(): pass",
        "def test_a():  # SB-10, XSB-1\n    pass",
    ],
)
def test_what_does_not_name_it(source: str) -> None:
    assert "SB-1" not in named_in(source)
