"""`minikubelet job`: run a CronJob's Job now, suspend, resume and restart Jobs."""

from __future__ import annotations

from pathlib import Path

import click

from minikubelet.cli.control import act, path_of, socket_option, told
from minikubelet.cli.names import named, split_names
from minikubelet.cli.terminal import say

namespace_option = click.option("-n", "--namespace", default="default", show_default=True, help="The Job's namespace.")


@click.group(name="job")
def command() -> None:
    """Run, suspend, resume and restart Jobs."""


@command.command(name="run", short_help="Run a CronJob's Job now.")
@click.option("--from", "source", required=True, metavar="cronjob/NAME", help="The CronJob whose Job is to run.")
@click.argument("name", metavar="[JOBNAME]", required=False)
@click.option("-o", "--output", type=click.Choice(["name"]), help="Print the Job's name only, as job.batch/NAME.")
@namespace_option
@socket_option
def run(source: str, name: str | None, *, output: str | None, namespace: str, socket_path: Path | None) -> None:
    """Run a CronJob's Job now, whatever its schedule says, as `kubectl create job --from` does.

    Without JOBNAME a name is made up. The Job counts for the CronJob's history limits, and goes when the CronJob goes;
    `minikubelet delete job NAME` removes it before.
    """
    if "/" not in source:
        raise click.UsageError(f"--from {source!r}: write cronjob/NAME")
    ((_, cron),) = split_names((source,), [named("cronjob")])
    for step in act(socket_path, "POST", path_of("cronjobs", namespace, cron, "run", name=name)):
        say(step.object if output == "name" else step.message)


@command.command(name="suspend", short_help="End a Job's pods in order and start no more.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@namespace_option
@socket_option
def suspend(names: tuple[str, ...], *, namespace: str, socket_path: Path | None) -> None:
    """End a Job's pods in order and start no more, until it is resumed; its counters stay.

    This holds, also over restarts, until `resume` or `restart`, or until `suspend` in its file changes.
    """
    _each(names, "suspend", namespace=namespace, socket_path=socket_path)


@command.command(name="resume", short_help="Let a suspended Job go on.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@namespace_option
@socket_option
def resume(names: tuple[str, ...], *, namespace: str, socket_path: Path | None) -> None:
    """Let a suspended Job go on, also one that is suspended by its file."""
    _each(names, "resume", namespace=namespace, socket_path=socket_path)


@command.command(name="restart", short_help="Run a Job again from the beginning.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--wait/--no-wait", default=True, help="Return when the new run has begun (the default), or at once.")
@namespace_option
@socket_option
def restart(names: tuple[str, ...], *, wait: bool, namespace: str, socket_path: Path | None) -> None:
    """Run a Job again from the beginning: a finished one, one that has expired, or one that runs, which ends first.

    It is a run of its own, with a new uid and all counters at zero; the old pods and their logs go.
    """
    _each(names, "restart", namespace=namespace, socket_path=socket_path, wait="true" if wait else None)


def _each(
    names: tuple[str, ...], verb: str, *, namespace: str, socket_path: Path | None, wait: str | None = None
) -> None:
    """What the daemon refuses is told, and the others are gone on with."""
    failed = False
    for word in names:
        ((_, name),) = split_names((word if "/" in word else f"job/{word}",), [named("job")])
        failed |= not told(act(socket_path, "POST", path_of("jobs", namespace, name, verb, wait=wait)))
    if failed:
        raise click.exceptions.Exit(1)
