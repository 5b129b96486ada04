"""`minikubelet version`."""

from __future__ import annotations

from importlib.metadata import version

import click


@click.command(name="version")
def command() -> None:
    """Show the version of this command."""
    click.echo(f"minikubelet {version('minikubelet')}")
