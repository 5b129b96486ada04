from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

_SCRIPT = Path(__file__).parents[2] / "scripts" / "support_matrix.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("support_matrix", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_the_objects_say() -> None:
    it = script()
    assert it.PAGE.read_text() == it.page(), "run: python scripts/support_matrix.py"


def test_every_field_that_is_not_supported_says_why() -> None:
    rows = [line.split("|") for line in script().page().splitlines() if line.startswith("| `")]
    assert len(rows) > 300
    assert [row[1] for row in rows if row[2].strip() != "supported" and not row[3].strip()] == []
