"""`minikubelet get`: objects of the running daemon, as kubectl would show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
import msgspec
import yaml

from minikubelet.cli import batch_printers, printers
from minikubelet.cli.batch_views import CronJob, Job
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.errors import not_found
from minikubelet.cli.names import named
from minikubelet.cli.tables import table
from minikubelet.cli.terminal import say
from minikubelet.cli.views import Event, Meta, Pod


def _by_name(view: Any) -> tuple[str, str]:
    return (view.metadata.namespace, view.metadata.name)


class Resource(NamedTuple):
    """One kind that `get` shows."""

    plural: str
    kind: str
    aliases: frozenset[str]
    path: str
    view: type[Any]
    columns: Sequence[str]
    wide_columns: Sequence[str]
    row: Callable[..., tuple[str, ...]]
    #: What the rows are ordered by.
    order: Callable[[Any], Any] = _by_name
    #: Of the API, as it stands after the kind in names: `job.batch/report`.
    group: str = ""

    @property
    def singular(self) -> str:
        return self.kind.lower() + self.group


RESOURCES = (
    Resource(
        plural="pods",
        kind="Pod",
        aliases=named("pod").aliases,
        path="/pods",
        view=Pod,
        columns=printers.POD_COLUMNS,
        wide_columns=printers.POD_WIDE_COLUMNS,
        row=printers.pod_row,
    ),
    Resource(
        plural="jobs",
        kind="Job",
        aliases=named("job").aliases,
        group=".batch",
        path="/jobs",
        view=Job,
        columns=batch_printers.JOB_COLUMNS,
        wide_columns=batch_printers.JOB_WIDE_COLUMNS,
        row=batch_printers.job_row,
    ),
    Resource(
        plural="cronjobs",
        kind="CronJob",
        aliases=named("cronjob").aliases,
        group=".batch",
        path="/cronjobs",
        view=CronJob,
        columns=batch_printers.CRONJOB_COLUMNS,
        wide_columns=batch_printers.CRONJOB_WIDE_COLUMNS,
        row=batch_printers.cronjob_row,
    ),
    Resource(
        plural="events",
        kind="Event",
        aliases=frozenset({"events", "event", "ev"}),
        path="/events",
        view=Event,
        columns=printers.EVENT_COLUMNS,
        wide_columns=printers.EVENT_WIDE_COLUMNS,
        row=printers.event_row,
        order=lambda event: event.last_timestamp or event.first_timestamp or "",
    ),
)


class _Items(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Header(msgspec.Struct):
    metadata: Meta = Meta()


class Found(NamedTuple):
    metadata: Meta
    raw: msgspec.Raw


class _Asked(NamedTuple):
    resource: Resource
    #: Empty: all.
    names: tuple[str, ...]


class _Look(NamedTuple):
    """How what is found is shown."""

    output: str | None
    namespaces: bool
    bare: bool
    #: There are several kinds, so that names say which they are of.
    kinds: bool


@click.command(name="get")
@click.argument("what", metavar="KIND[,KIND]... [NAME]... | KIND/NAME...", nargs=-1, required=True)
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace to look in.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in all namespaces.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="How to show them.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@server_option
def command(
    what: tuple[str, ...],
    *,
    namespace: str,
    all_namespaces: bool,
    output: str | None,
    no_headers: bool,
    server: str,
) -> None:
    """Show pods, jobs, cronjobs or events.

    \b
    minikubelet get pods -A
    minikubelet get pod web -o yaml
    minikubelet get pod/web job/report
    minikubelet get jobs,pods
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    asked = _asked(what)
    single = len(asked) == 1 and len(asked[0].names) == 1
    if asked[0].names and all_namespaces:
        raise click.UsageError("a name stands for one namespace: leave out -A, and use -n")
    groups: list[tuple[Resource, list[Found]]] = []
    missing = []
    for it, names in asked:
        listed = decoded(fetch(server, it.path), _Items, server=server).items or []
        found = [Found(decoded(raw, _Header, server=server).metadata, raw) for raw in listed]
        if not all_namespaces:
            found = [each for each in found if each.metadata.namespace == namespace]
        if names:
            by_name = {each.metadata.name: each for each in found}
            missing += [not_found(it.plural + it.group, name) for name in names if name not in by_name]
            found = [by_name[name] for name in names if name in by_name]
        if found:
            groups.append((it, found))
    look = _Look(output, namespaces=all_namespaces, bare=no_headers, kinds=len({it.kind for it, _ in asked}) > 1)
    if output in ("json", "yaml"):
        if groups or not missing:
            click.echo(_document(groups, output, single=single))
    elif groups:
        say(("\n" if output == "name" else "\n\n").join(_rows(it, found, look, server) for it, found in groups))
    elif not asked[0].names:
        where = "" if all_namespaces else f" in {namespace} namespace"
        say(f"No resources found{where}.", err=True)
    for error in missing:
        error.show()
    if missing:
        raise click.exceptions.Exit(1)


def _asked(words: tuple[str, ...]) -> list[_Asked]:
    """Kinds, separated by commas, and names of each, or kind/name each. Raises click.UsageError."""
    first, *rest = words
    if "/" not in first:
        if wrong := next((name for name in rest if "/" in name), None):
            raise click.UsageError(f"{wrong!r}: a kind was named before; write {first} NAME..., or KIND/NAME each")
        kinds = dict.fromkeys(_resource(word) for word in first.split(",") if word)
        return [_Asked(it, tuple(dict.fromkeys(rest))) for it in kinds] or [_Asked(_resource(first), ())]
    names: dict[Resource, list[str]] = {}
    for word in words:
        kind, _, name = word.partition("/")
        if not name or "/" in name:
            raise click.UsageError(f"{word!r}: write KIND/NAME, such as pod/web")
        known = names.setdefault(_resource(kind), [])
        if name not in known:
            known.append(name)
    return [_Asked(it, tuple(each)) for it, each in names.items()]


def _resource(word: str) -> Resource:
    found = next((each for each in RESOURCES if word.lower() in each.aliases), None)
    if found is None:
        known = ", ".join(each.plural for each in RESOURCES)
        raise click.UsageError(f"there is no resource {word!r}; there are: {known}")
    return found


def _document(groups: list[tuple[Resource, list[Found]]], output: str, *, single: bool) -> str:
    objects = [
        {"apiVersion": "v1", "kind": it.kind} | msgspec.json.decode(each.raw) for it, found in groups for each in found
    ]
    shown = (
        objects[0]
        if single
        else {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    )
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(shown, order="sorted"), indent=4).decode()
    text: str = yaml.safe_dump(shown, allow_unicode=True, width=10_000)
    return text.removesuffix("\n")


def _rows(it: Resource, found: list[Found], look: _Look, server: str) -> str:
    if look.output == "name":
        return "\n".join(f"{it.singular}/{each.metadata.name}" for each in found)
    wide = look.output == "wide"
    now = datetime.now(UTC)
    views = sorted((decoded(each.raw, it.view, server=server) for each in found), key=it.order)
    columns = ("NAMESPACE",) * look.namespaces + tuple(it.wide_columns if wide else it.columns)
    rows = []
    for view in views:
        row = it.row(view, now=now, wide=wide)
        if look.kinds:
            place = it.columns.index("NAME") if "NAME" in it.columns else None
            row = tuple(f"{it.singular}/{cell}" if at == place else cell for at, cell in enumerate(row))
        rows.append((view.metadata.namespace,) * look.namespaces + row)
    text = table(columns, rows)
    return text.partition("\n")[2] if look.bare else text
