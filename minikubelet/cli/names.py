"""How people name an object on the command line: `pod web`, `pod/web`, `cj/report`, `job.batch/report-1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import click


class Kind(NamedTuple):
    kind: str
    #: As Kubernetes names it in messages.
    resource: str
    aliases: frozenset[str]


KINDS = (
    Kind("Pod", "pods", frozenset({"pod", "pods", "po"})),
    Kind("Job", "jobs.batch", frozenset({"job", "jobs", "job.batch", "jobs.batch"})),
    Kind("CronJob", "cronjobs.batch", frozenset({"cronjob", "cronjobs", "cj", "cronjob.batch", "cronjobs.batch"})),
)


def named(alias: str) -> Kind:
    return next(kind for kind in KINDS if alias in kind.aliases)


def split_names(words: tuple[str, ...], kinds: Iterable[Kind]) -> list[tuple[Kind, str]]:
    """Either a kind and names of it, or kind/name each. Raises click.UsageError."""
    allowed = tuple(kinds)
    first, *rest = words
    if "/" not in first:
        if not rest:
            _kind(first, allowed, alone=True)
            raise click.UsageError(f"say which: {first} NAME")
        if wrong := next((name for name in rest if "/" in name), None):
            raise click.UsageError(f"{wrong!r}: a kind was named before; write {first} NAME..., or KIND/NAME each")
        return [(_kind(first, allowed), name) for name in rest]
    found = []
    for word in words:
        kind, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise click.UsageError(f"{word!r}: write KIND/NAME, such as {first}")
        found.append((_kind(kind, allowed), name))
    return found


def _kind(word: str, allowed: tuple[Kind, ...], *, alone: bool = False) -> Kind:
    """`alone`: nothing follows it, so it may be meant to be a name."""
    found = next((kind for kind in allowed if word.lower() in kind.aliases), None)
    if found is None:
        known = [kind.kind.lower() for kind in allowed]
        advice = (
            f"write {' or '.join(f'{kind} {word}' for kind in known)}" if alone else f"there are: {', '.join(known)}"
        )
        raise click.UsageError(f"{word!r} is no kind; {advice}")
    return found
