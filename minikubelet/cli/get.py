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
from minikubelet.cli.tables import table
from minikubelet.cli.views import Event, Meta, Pod


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
    order: Callable[[Any], Any]


def _by_name(view: Any) -> tuple[str, str]:
    return (view.metadata.namespace, view.metadata.name)


RESOURCES = (
    Resource(
        plural="pods",
        kind="Pod",
        aliases=frozenset({"pods", "pod", "po"}),
        path="/pods",
        view=Pod,
        columns=printers.POD_COLUMNS,
        wide_columns=printers.POD_WIDE_COLUMNS,
        row=printers.pod_row,
        order=_by_name,
    ),
    Resource(
        plural="jobs",
        kind="Job",
        aliases=frozenset({"jobs", "job"}),
        path="/jobs",
        view=Job,
        columns=batch_printers.JOB_COLUMNS,
        wide_columns=batch_printers.JOB_WIDE_COLUMNS,
        row=batch_printers.job_row,
        order=_by_name,
    ),
    Resource(
        plural="cronjobs",
        kind="CronJob",
        aliases=frozenset({"cronjobs", "cronjob", "cj"}),
        path="/cronjobs",
        view=CronJob,
        columns=batch_printers.CRONJOB_COLUMNS,
        wide_columns=batch_printers.CRONJOB_WIDE_COLUMNS,
        row=batch_printers.cronjob_row,
        order=_by_name,
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


@click.command(name="get")
@click.argument("resource")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace to look in.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in all namespaces.")
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="How to show them.")
@click.option("--no-headers", is_flag=True, help="Leave out the line of column names.")
@server_option
def command(
    resource: str,
    names: tuple[str, ...],
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
    minikubelet get events
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    it = next((each for each in RESOURCES if resource.lower() in each.aliases), None)
    if it is None:
        known = ", ".join(each.plural for each in RESOURCES)
        raise click.UsageError(f"there is no resource {resource!r}; there are: {known}")
    if names and all_namespaces:
        raise click.UsageError("a name stands for one namespace: leave out -A, and use -n")
    listed = decoded(fetch(server, it.path), _Items, server=server).items or []
    found = [Found(decoded(raw, _Header, server=server).metadata, raw) for raw in listed]
    if not all_namespaces:
        found = [each for each in found if each.metadata.namespace == namespace]
    missing = []
    if names:
        by_name = {each.metadata.name: each for each in found}
        missing = [name for name in dict.fromkeys(names) if name not in by_name]
        found = [by_name[name] for name in dict.fromkeys(names) if name in by_name]
    if found or output in ("json", "yaml"):
        single = len(names) == 1
        if not (single and missing):
            click.echo(
                _shown(it, found, server=server, output=output, single=single, spaces=all_namespaces, bare=no_headers)
            )
    elif not names:
        where = "" if all_namespaces else f" in {namespace} namespace"
        click.echo(f"No resources found{where}.", err=True)
    for name in missing:
        click.echo(f'Error from server (NotFound): {it.plural} "{name}" not found', err=True)
    if missing:
        raise click.exceptions.Exit(1)


def _shown(
    it: Resource, found: list[Found], *, server: str, output: str | None, single: bool, spaces: bool, bare: bool
) -> str:
    if output == "name":
        return "\n".join(f"{it.kind.lower()}/{each.metadata.name}" for each in found)
    if output in ("json", "yaml"):
        objects = [{"apiVersion": "v1", "kind": it.kind} | msgspec.json.decode(each.raw) for each in found]
        shown = (
            objects[0]
            if single
            else {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
        )
        if output == "json":
            return msgspec.json.format(msgspec.json.encode(shown, order="sorted"), indent=4).decode()
        text: str = yaml.safe_dump(shown, allow_unicode=True, width=10_000)
        return text.removesuffix("\n")
    wide = output == "wide"
    now = datetime.now(UTC)
    views = sorted((decoded(each.raw, it.view, server=server) for each in found), key=it.order)
    columns = ("NAMESPACE",) * spaces + tuple(it.wide_columns if wide else it.columns)
    rows = [(view.metadata.namespace,) * spaces + it.row(view, now=now, wide=wide) for view in views]
    text = table(columns, rows)
    return text.partition("\n")[2] if bare else text
