"""`minikubelet describe`: one object with all there is to say of it, its events at the end, in kubectl's layout."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
import msgspec

from minikubelet.cli import ages
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.columns import aligned
from minikubelet.cli.describe_batch import cronjob_lines, job_lines
from minikubelet.cli.describe_pod import pod_lines
from minikubelet.cli.errors import not_found
from minikubelet.cli.names import Kind, named, split_names
from minikubelet.cli.terminal import say


class _Described(NamedTuple):
    kind: Kind
    path: str
    lines: Callable[[Any], list[str]]


_DESCRIBED = (
    _Described(named("pod"), "/pods", pod_lines),
    _Described(named("job"), "/jobs", job_lines),
    _Described(named("cronjob"), "/cronjobs", cronjob_lines),
)


class _Items(msgspec.Struct):
    items: list[Any] | None = None


@click.command(name="describe", short_help="Show all there is to say of pods, jobs or cronjobs.")
@click.argument("what", metavar="KIND NAME... | KIND/NAME...", nargs=-1, required=True)
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace to look in.")
@server_option
def command(what: tuple[str, ...], *, namespace: str, server: str) -> None:
    """Show all there is to say of pods, jobs or cronjobs, their events included.

    \b
    minikubelet describe pod web
    minikubelet describe cronjob/report job/report-29000000
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    asked = [(_described(kind), name) for kind, name in split_names(what, (each.kind for each in _DESCRIBED))]
    events = decoded(fetch(server, "/events"), _Items, server=server).items or []
    now, missing = datetime.now(UTC), False
    texts = []
    for it, name in asked:
        items = decoded(fetch(server, it.path), _Items, server=server).items or []
        found = [each for each in items if _meta(each) == (namespace, name)]
        if not found:
            missing = True
            not_found(it.kind.resource, name).show()
        texts += ["\n".join([*aligned(it.lines(each)), *_events(events, each, it.kind, now=now)]) for each in found]
    if texts:
        say("\n\n\n".join(texts))
    if missing:
        raise click.exceptions.Exit(1)


def _described(kind: Kind) -> _Described:
    return next(each for each in _DESCRIBED if each.kind is kind)


def _meta(item: Any) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"].get("name", "")


def _events(events: list[Any], item: Any, kind: Kind, *, now: datetime) -> list[str]:
    about = [event for event in events if _is_about(event.get("involvedObject", {}), item, kind)]
    if not about:
        return ["Events:  <none>"]
    rows = [
        "\t".join(
            (
                f"  {event.get('type', '')}",
                event.get("reason", ""),
                _interval(event, now=now),
                event.get("source", {}).get("component", ""),
                " ".join(event.get("message", "").split()),
            )
        )
        for event in about
    ]
    return ["Events:", *aligned(["  Type\tReason\tAge\tFrom\tMessage", "  ----\t------\t----\t----\t-------", *rows])]


def _is_about(reference: Any, item: Any, kind: Kind) -> bool:
    metadata = item["metadata"]
    same = (reference.get("kind"), reference.get("namespace"), reference.get("name")) == (kind.kind, *_meta(item))
    return same and reference.get("uid") == metadata.get("uid")


def _interval(event: Any, *, now: datetime) -> str:
    first = ages.age(event.get("firstTimestamp"), now=now)
    count = event.get("count", 1)
    return f"{ages.age(event.get('lastTimestamp'), now=now)} (x{count} over {first})" if count > 1 else first
