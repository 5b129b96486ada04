"""Pieces that the descriptions of all kinds share: times, labels, annotations, who controls it. Lines with tab stops.

Objects are plain decoded JSON: like `views`, tolerant of what another server sends or leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikubelet.cli import ages

NONE, UNSET = "<none>", "<unset>"
_LONGEST = 140


def moment(text: str | None) -> str:
    """As kubectl shows a moment: `Mon, 02 Jan 2006 15:04:05 +0000`."""
    at = ages.parse(text)
    return "<unknown>" if at is None else f"{at:%a, %d %b %Y %H:%M:%S %z}"


def head(item: Any) -> list[str]:
    return [f"Name:\t{item['metadata'].get('name', '')}", f"Namespace:\t{item['metadata'].get('namespace', '')}"]


def pairs(label: str, values: Mapping[str, str] | None) -> list[str]:
    """One per line, below each other."""
    texts = [f"{key}={value}" for key, value in sorted((values or {}).items())] or [NONE]
    return [f"{label}:\t{texts[0]}", *(f"\t{text}" for text in texts[1:])]


def notes(label: str, values: Mapping[str, str] | None) -> list[str]:
    texts: list[str] = []
    for key, value in sorted((values or {}).items()):
        if len(key) + len(value) + 2 > _LONGEST or "\n" in value.rstrip("\n"):
            texts += [f"{key}:", *(f"  {_short(line)}" for line in value.rstrip("\n").split("\n"))]
        else:
            texts.append(f"{key}: {value.rstrip()}")
    texts = [text.replace("\t", " ") for text in texts] or [NONE]
    return [f"{label}:\t{texts[0]}", *(f"\t{text}" for text in texts[1:])]


def controlled_by(item: Any) -> list[str]:
    owners = item["metadata"].get("ownerReferences") or []
    return [f"Controlled By:\t{it['kind']}/{it['name']}" for it in owners if it.get("controller")]


def yes_no(value: object) -> str:
    return "True" if value else "False"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST - 2 else text[: _LONGEST - 2] + "..."
