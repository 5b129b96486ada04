"""`minikubelet status`: how the daemon is, on one screen, what is wrong first."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from minikubelet.cli import ages
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.server.parts import ImageArchivesStatus, Status

_PHASES = ("Running", "Pending", "Succeeded", "Failed", "Unknown")


@click.command(name="status")
@server_option
def command(server: str) -> None:
    """Show how the daemon, its runtime and its manifests are."""
    click.echo("\n".join(lines(decoded(fetch(server, "/status"), Status, server=server), now=datetime.now(UTC))))


def lines(status: Status, *, now: datetime) -> list[str]:
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
        f"Pods:       {total}" + (f" ({', '.join(phases)})" if phases else ""),
    ]
    for title, entries in (
        ("Not ready", [f"{check}: {reason}" for check, reason in status.not_ready.items()]),
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


def _images(archives: ImageArchivesStatus) -> str:
    count, broken = len(archives.archives), len(archives.errors)
    found = "no archives" if not count else "1 archive" if count == 1 else f"{count} archives"
    return f"{archives.folder}, {found}" + (f", {broken} with ERRORS" if broken else ", no errors" if count else "")
