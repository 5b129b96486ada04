"""How the commands say what went wrong: what the daemon refuses or does not have, in kubectl's words.

Anything else is a click.ClickException, shown as `Error: …`.
"""

from __future__ import annotations

from typing import IO, Any

import click

from minikubelet.cli.terminal import say


class RefusedError(click.ClickException):
    """The daemon says no; `reason` is Kubernetes'."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    def show(self, file: IO[Any] | None = None) -> None:
        reason = f" ({self.reason})" if self.reason else ""
        say(f"Error from server{reason}: {self.message}", file=file, err=file is None)


class UnreachedError(click.ClickException):
    """There is no answer."""


def not_found(resource: str, name: str) -> RefusedError:
    """`resource` as Kubernetes names it in messages: `pods`, `jobs.batch`."""
    return RefusedError("NotFound", f'{resource} "{name}" not found')
