"""`minikubelet wait`: until a Job has a condition, with an exit status that scripts can use."""

from __future__ import annotations

import time
from urllib.parse import quote, urlencode

import click

from minikubelet.api import durations
from minikubelet.cli.batch_views import Job
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.errors import RefusedError, not_found
from minikubelet.cli.names import named
from minikubelet.cli.terminal import say

#: Seconds that one request waits; the client's own patience is longer.
_ONE_REQUEST = 5.0
#: What a Job can have.
_CONDITIONS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")


@click.command(name="wait")
@click.argument("what", metavar="job/NAME")
@click.option("--for", "wanted", required=True, metavar="condition=TYPE", help="Such as condition=Complete.")
@click.option("--timeout", default="30s", show_default=True, help="How long to wait at most, such as 90s or 1h.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The Job's namespace.")
@server_option
def command(what: str, *, wanted: str, timeout: str, namespace: str, server: str) -> None:
    """Wait until a Job has a condition.

    The exit status is 0 when it has it, and 1 when the time is over, when there is no such Job, or when the Job has
    ended so that it can never have it (it has failed, say, while Complete was waited for).
    """
    kind, _, name = what.partition("/")
    if kind.lower() not in named("job").aliases or not name:
        raise click.UsageError(f"{what!r}: what can be waited for is a Job, written job/NAME")
    key, _, asked = wanted.partition("=")
    if key != "condition" or not asked:
        raise click.UsageError(f"--for {wanted!r}: write condition=TYPE, such as condition=Complete")
    condition = next((known for known in _CONDITIONS if known.lower() == asked.lower()), None)
    if condition is None:
        raise click.UsageError(f"--for: {asked!r} is no condition of a Job; there are: {', '.join(_CONDITIONS)}")
    try:
        deadline = time.monotonic() + durations.parse(timeout)
    except durations.DurationError as error:
        raise click.UsageError(f"--timeout: {error}") from error
    while True:
        left = max(0.0, deadline - time.monotonic())
        query = urlencode({"for": condition, "seconds": min(left, _ONE_REQUEST)})
        path = f"/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}?{query}"
        try:
            job = decoded(fetch(server, path), Job, server=server)
        except RefusedError as refused:
            raise (not_found("jobs.batch", name) if refused.reason == "NotFound" else refused) from refused
        true = {each.type for each in job.status.conditions if each.status == "True"}
        if condition in true:
            say(f"job.batch/{name} condition met")
            return
        if "Failed" in true or "Complete" in true:
            end = "failed" if "Failed" in true else "is complete"
            raise click.ClickException(f"job {name} {end}: it will never be {condition}")
        if not left:
            raise click.ClickException(f"timed out waiting for the condition on jobs/{name}")
