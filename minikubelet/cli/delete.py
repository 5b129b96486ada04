"""`minikubelet delete`: end pods in order, and remove Jobs that no file asks for."""

from __future__ import annotations

from pathlib import Path

import click

from minikubelet.cli.control import act, path_of, socket_option, told
from minikubelet.cli.names import named, split_names

_KINDS = (named("pod"), named("job"))
_SEGMENT = {"Pod": "pods", "Job": "jobs"}


@click.command(name="delete")
@click.argument("what", metavar="KIND NAME... | KIND/NAME...", nargs=-1, required=True)
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace to look in.")
@click.option("--wait/--no-wait", default=True, help="Return when nothing of it is left (the default), or at once.")
@click.option("--grace-period", type=click.IntRange(min=0), metavar="SECONDS", help="How long a pod may take at most.")
@click.option("--now", is_flag=True, help="The same as --grace-period=1.")
@click.option("--ignore-not-found", is_flag=True, help="It is no error that there is no such pod or Job.")
@socket_option
def command(
    what: tuple[str, ...],
    *,
    namespace: str,
    wait: bool,
    grace_period: int | None,
    now: bool,
    ignore_not_found: bool,
    socket_path: Path | None,
) -> None:
    """Delete pods, or Jobs that were run from a CronJob.

    A pod that a manifest defines ends in order and then begins anew, since its manifest is there: to end it for good,
    remove the file. A Job's pod is replaced by the Job's rules. A Job that has a file of its own cannot be deleted.

    \b
    minikubelet delete pod web
    minikubelet delete job/report-by-hand --no-wait
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    if now and grace_period is not None:
        raise click.UsageError("--now is --grace-period=1: give one of the two")
    grace = 1 if now else grace_period
    asked = split_names(what, _KINDS)
    if grace is not None and any(kind.kind == "Job" for kind, _ in asked):
        raise click.UsageError("--grace-period and --now are for pods; a Job's pods take the time that they have")
    failed = False
    for kind, name in asked:
        path = path_of(_SEGMENT[kind.kind], namespace, name, gracePeriodSeconds=grace, wait="true" if wait else None)
        failed |= not told(act(socket_path, "DELETE", path), fine="NotFound" if ignore_not_found else None)
    if failed:
        raise click.exceptions.Exit(1)
