"""Write docs/support.md: every field of a Pod and how far it is supported, from the typed objects themselves.

Run `python scripts/support_matrix.py` after a change of a field or its mark; a test holds the page to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from minikubelet.api.pod import Pod
from minikubelet.api.support import Level, Row, matrix

PAGE = Path(__file__).parent.parent / "docs" / "support.md"

_HEAD = """# What of a Pod is supported

Every field of the v1.36 Pod, generated from the typed objects by `scripts/support_matrix.py`.

- **supported**: has the effect it has under a kubelet ([differences](differences.md) apart).
- **accepted**: read and checked, kept in the shown spec, named once in the log: it means nothing on a single host.
- **refused**: a manifest that sets it is refused with the reason; nothing is ignored in silence.
"""


def page() -> str:
    rows = [row for row in matrix(Pod) if not row.path.startswith("status")]
    counts = Counter(row.mark.level for row in rows)
    summary = ", ".join(f"{counts[level]} {level.value}" for level in Level)
    return "\n".join([_HEAD, f"{len(rows)} fields: {summary}.", "", *_table(rows), ""])


def _table(rows: list[Row]) -> Iterator[str]:
    yield "| field | | why |"
    yield "|---|---|---|"
    for row in rows:
        yield f"| `{row.path}` | {row.mark.level.value} | {row.mark.reason} |"


if __name__ == "__main__":
    PAGE.write_text(page())
