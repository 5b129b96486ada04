"""The `minikubelet` command. `main` is the entry point.

Each subcommand is a module of this package and is imported when it is used, so that a client command does not wait
for the daemon's libraries.
"""

from __future__ import annotations

import importlib

import click

_COMMANDS = (
    "claims",
    "delete",
    "describe",
    "get",
    "images",
    "job",
    "logs",
    "run",
    "status",
    "validate",
    "version",
    "wait",
)


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  as above
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"minikubelet.cli.{cmd_name}").command
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="minikubelet", message="%(prog)s %(version)s", prog_name="minikubelet")
def main() -> None:
    """A kubelet for one host without a cluster: pods from a folder, on containerd."""
