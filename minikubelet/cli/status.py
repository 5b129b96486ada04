"""`minikubelet status`: how the daemon is, on one screen, what is wrong first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from minikubelet.cli import ages
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.terminal import say
from minikubelet.cli.unwell import unwell
from minikubelet.cli.views import Event, Pod
from minikubelet.server.parts import ImageArchivesStatus, Status

_PHASES = ("Running", "Pending", "Succeeded", "Failed", "Unknown")


@click.command(name="status")
@click.option("--check", is_flag=True, help="Exit with 1 also when something is wrong: for monitoring.")
@server_option
def command(server: str, *, check: bool) -> None:
    """Show how the daemon, its runtime, its manifests and its pods are.

    The exit status is 0 when the daemon answers, and 1 when it does not. With --check it is 1 also when the daemon is
    not ready, when a manifest or an image archive is refused, and when a pod is listed as not well.
    """
    now = datetime.now(UTC)
    status = decoded(fetch(server, "/status"), Status, server=server)
    pods = decoded(fetch(server, "/pods"), _Pods, server=server).items or []
    events = decoded(fetch(server, "/events"), _Events, server=server).items or []
    sick = unwell(pods, events, now=now)
    say("\n".join(lines(status, now=now, sick=sick)))
    if check and (sick or status.not_ready or status.manifests.errors or status.image_archives.errors):
        raise click.exceptions.Exit(1)


class _Pods(msgspec.Struct):
    items: list[Pod] | None = None


class _Events(msgspec.Struct):
    items: list[Event] | None = None


def lines(status: Status, *, now: datetime, sick: Sequence[str] = ()) -> list[str]:
    """`sick`: what is to be said of pods that are not well."""
    runtime, manifests, archives = status.runtime, status.manifests, status.image_archives
    name = " ".join(filter(None, (runtime.name, runtime.version))) or "container runtime"
    reached = "connected" if runtime.connected else f"NOT CONNECTED{': ' + runtime.reason if runtime.reason else ''}"
    broken = len({error.file for error in manifests.errors})
    ready = "yes" if not status.not_ready else "NO"
    total = sum(status.pods.values())
    phases = [
        f"{status.pods[phase]} {phase}"
        for phase in (*_PHASES, *sorted(status.pods.keys() - {*_PHASES}))
        if status.pods.get(phase)
    ]
    shown = [
        f"minikubelet {status.version} on node {status.node}, up {ages.age(status.started_at, now=now)}",
        f"Ready:      {ready}",
        f"Runtime:    {name} at {runtime.endpoint}, {reached}",
        f"Manifests:  {manifests.folder}, " + (f"{broken} with ERRORS" if broken else "no errors"),
        *([f"Images:     {_images(archives)}"] if archives.folder else []),  # an older daemon says nothing of them
        *([f"Objects:    {_objects(manifests.objects)}"] if manifests.objects else []),
        f"Pods:       {total}" + (f" ({', '.join(phases)})" if phases else ""),
    ]
    for title, entries in (
        ("Not ready", [f"{check}: {reason}" for check, reason in status.not_ready.items()]),
        ("Pods that are not well", sick),
        ("Errors in manifests", [str(error) for error in manifests.errors]),
        ("Errors in image archives", [str(error) for error in archives.errors]),
        (
            "Waiting to be closed by whoever writes them",
            [*manifests.being_written, *archives.being_written],
        ),
        ("Image archives being imported", list(archives.importing)),
        ("Remarks on manifests", [str(note) for note in manifests.notes]),
        ("Findings on this host", list(status.findings)),
    ):
        if entries:
            shown += ["", f"{title}:", *(f"  {entry}" for entry in entries)]
    return shown


def _objects(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(counts.items()))


def _images(archives: ImageArchivesStatus) -> str:
    count, broken = len(archives.archives), len(archives.errors)
    found = "no archives" if not count else "1 archive" if count == 1 else f"{count} archives"
    return f"{archives.folder}, {found}" + (f", {broken} with ERRORS" if broken else ", no errors" if count else "")
