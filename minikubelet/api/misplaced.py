"""Where a field belongs that stands at the wrong place of a manifest: guessed by its name, for `schema` to say it."""

from __future__ import annotations

import functools
import re

from minikubelet.api.base import Object
from minikubelet.api.support import matrix

#: A name that is at home in more places (`name`, `key`) says nothing about where it was meant to be.
_FEW_PLACES = 3
_INDEX = re.compile(r"\[\d+\]")
_SAME_OWNERS = {
    "initContainers[]": "containers[]", "livenessProbe": "probe", "readinessProbe": "probe", "startupProbe": "probe",
    "postStart": "probe", "preStop": "probe",
}  # fmt: skip


def meant_place(root: type[Object], name: str, path: str) -> str:
    """Where a field belongs that stands in `path`, as the end of a question; empty if that cannot be guessed."""
    here = _INDEX.sub("[]", path)
    places = _places(root).get(name, ())
    for place in places:  # indented too little or too much
        holder = place.rpartition(".")[0]
        if _begins_with(here, holder) or _begins_with(holder, here) or here == "metadata":
            return f"{place}? Check the indentation"
    for place in places:  # such as what only one of the two kinds of securityContext has
        if place.split(".")[-2:-1] == here.split(".")[-1:]:
            return f"{place}?"
    return ""


def _begins_with(path: str, start: str) -> bool:
    return not start or path == start or path.startswith((f"{start}.", f"{start}[]"))


@functools.cache
def _places(root: type[Object]) -> dict[str, list[str]]:
    """Where in a document fields belong, by their names: of names that have few places, those near to the top first."""
    found: dict[str, list[str]] = {}
    for row in matrix(root):
        found.setdefault(row.path.rpartition(".")[2], []).append(row.path)
    few = {name: paths for name, paths in found.items() if len({_owner(path) for path in paths}) <= _FEW_PLACES}
    return {name: sorted(paths, key=lambda path: path.count(".")) for name, paths in few.items()}


def _owner(path: str) -> str:
    """What holds a field: the same for containers and init containers, for the three probes, and so on."""
    holder = path.rpartition(".")[0].rpartition(".")[2]
    return _SAME_OWNERS.get(holder, holder)
