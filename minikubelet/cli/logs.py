"""`minikubelet logs`: what a container has written, also before rotation, also of a pod that has finished.

Logs reveal, so root alone may see them: the files belong to root, and this command reads them itself. The daemon, if it
runs, says which pod has the name, which containers it has and whether one runs; without it the files say what there is.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click
import msgspec

from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.errors import RefusedError, UnreachedError, not_found
from minikubelet.cli.names import named, split_names
from minikubelet.cli.settings import settings
from minikubelet.cli.views import ContainerStatus, Pod, View
from minikubelet.config_file import ConfigError
from minikubelet.pods.log_reading import LogReader, container_folder, instances

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
#: Exit status of a program that was ended by SIGINT.
_INTERRUPTED = 130


class _Wanted(NamedTuple):
    pod: str
    namespace: str
    container: str
    uid: str
    #: None: it is not known, since the daemon does not answer or has not said it yet.
    status: ContainerStatus | None

    @property
    def folder(self) -> str:
        return f"{self.namespace}_{self.pod}_{self.uid}"


@click.command(name="logs", short_help="Show what a container has written (as root).")
@click.argument("pod", metavar="POD")
@click.option("-c", "--container", metavar="NAME", help="Which one; sidecars and init containers, too.")
@click.option("-p", "--previous", is_flag=True, help="Of the instance before this one, such as one that has crashed.")
@click.option("--tail", type=click.IntRange(min=-1), default=-1, metavar="N", help="The last N lines only.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until the container has ended.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's namespace.")
@click.option(
    "--logs-dir", type=click.Path(path_type=Path), help="Where the logs are. Default: podLogsDir of the daemon."
)
@server_option
def command(
    pod: str,
    *,
    container: str | None,
    previous: bool,
    tail: int,
    follow: bool,
    namespace: str,
    logs_dir: Path | None,
    server: str,
) -> None:
    """Show what a container has written to stdout and stderr, as root.

    Without -c it is the container that the annotation kubectl.kubernetes.io/default-container names, or the first one
    of the pod's `containers`. While the daemon is down what its pods have written can be seen, and not followed.

    \b
    minikubelet logs web --tail 20 -f
    minikubelet logs web -c proxy --previous
    """  # noqa: D301  \b is click's mark for lines that stay as they are
    ((_, name),) = split_names((pod if "/" in pod else f"pod/{pod}",), [named("pod")])
    try:
        top = (logs_dir or _said(server) or _configured()).absolute()
        wanted = _from_daemon(server, namespace, name, container)
    except UnreachedError as error:
        if follow:
            raise
        top = (logs_dir or _configured()).absolute()
        click.echo(f"{error.message}\nWhat is in {top} is shown.", err=True)
        wanted = _from_files(top, namespace, name, container)
    try:
        with container_folder(top, wanted.folder, wanted.container) as folder:
            attempt = _attempt(wanted, top, instances(folder), previous=previous)
            with LogReader(folder, attempt) as log:
                if follow and not previous and wanted.status is not None and wanted.status.state.running is not None:
                    _show(_last(log.read(), tail))
                    _follow(log, folder, wanted, attempt, server)
                    _show(log.rest())
                else:
                    _show(_last(itertools.chain(log.read(), log.rest()), tail))
    except BrokenPipeError:  # whoever reads has had enough
        raise
    except FileNotFoundError as error:
        raise _nothing(wanted, top, previous=previous) from error
    except PermissionError as error:
        raise click.ClickException(f"the logs in {top} may not be read by this user: run this as root") from error
    except (OSError, EOFError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise click.ClickException(f"{top / wanted.folder / wanted.container}: cannot be read: {why}") from error


def _said(server: str) -> Path | None:
    """The folder of logs as the daemon says it, which may have been told another configuration file."""
    said = decoded(fetch(server, "/status"), _LogsDir, server=server).pod_logs_dir
    return Path(said) if said else None


class _LogsDir(View, frozen=True, kw_only=True):
    pod_logs_dir: str = ""


def _configured() -> Path:
    try:
        return settings().pod_logs_dir
    except ConfigError as error:
        raise click.ClickException(f"the configuration cannot be used, so say --logs-dir:\n{error}") from error


def _from_daemon(server: str, namespace: str, name: str, container: str | None) -> _Wanted:
    pod = _pod(server, namespace, name)
    if pod is None:
        raise not_found("pods", name)
    regular = [it.name for it in pod.spec.containers]
    init = [it.name for it in pod.spec.init_containers]
    everything = ", ".join([*regular, *(f"{it} (init)" for it in init)])
    if container is None:
        container = pod.metadata.annotations.get(_DEFAULT_CONTAINER)
        if container is not None and container not in (*regular, *init):
            click.echo(f"Default container name {container!r} not found in pod {name}", err=True)
            container = None
        if container is None:
            container = regular[0]
            if len(regular) + len(init) > 1:
                click.echo(f'Defaulted container "{container}" out of: {everything}', err=True)
    elif container not in (*regular, *init):
        raise RefusedError("BadRequest", f"container {container} is not valid for pod {name}; it has: {everything}")
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    status = next((it for it in statuses if it.name == container), None)
    return _Wanted(name, namespace, container, pod.metadata.uid, status)


class _Pods(msgspec.Struct):
    items: list[Pod] | None = None


def _pod(server: str, namespace: str, name: str) -> Pod | None:
    items = decoded(fetch(server, "/pods"), _Pods, server=server).items or []
    return next((it for it in items if (it.metadata.namespace, it.metadata.name) == (namespace, name)), None)


def _from_files(top: Path, namespace: str, name: str, container: str | None) -> _Wanted:
    """The newest pod of this name that has left logs."""
    try:
        found = [it for it in top.iterdir() if it.name.startswith(f"{namespace}_{name}_") and not it.is_symlink()]
        newest = max(found, key=lambda it: it.stat().st_mtime, default=None)
        if newest is None:
            raise not_found("pods", name)
        containers = sorted(it.name for it in newest.iterdir())
    except PermissionError as error:
        raise click.ClickException(f"the logs in {top} may not be read by this user: run this as root") from error
    except OSError as error:
        raise click.ClickException(f"{top}: cannot be read: {error.strerror}") from error
    if container is None and len(containers) == 1:
        container = containers[0]
    if container not in containers:
        which = f"container {container} has left nothing in pod {name}" if container else "say which container (-c)"
        raise click.ClickException(f"{which}; there is something of: {', '.join(containers) or 'none'}")
    return _Wanted(name, namespace, container, newest.name.removeprefix(f"{namespace}_{name}_"), None)


def _attempt(wanted: _Wanted, top: Path, found: list[int], *, previous: bool) -> int:
    """Which of the instances that have a log is meant. Raises click.ClickException."""
    status = wanted.status
    waits = status is not None and status.state.waiting is not None
    if waits and (status is None or status.last_state.terminated is None):
        raise _nothing(wanted, top, previous=previous)  # what there is was written before the pod began anew
    if previous and not waits:  # one that waits to be started again is the previous one itself
        current = found[-1] if status is None and found else status.restart_count if status is not None else 0
        found = [it for it in found if it < current]
    if not found:
        raise _nothing(wanted, top, previous=previous)
    return found[-1]


def _nothing(wanted: _Wanted, top: Path, *, previous: bool) -> click.ClickException:
    if previous:
        which = f'previous terminated container "{wanted.container}" in pod "{wanted.pod}"'
        return RefusedError("BadRequest", f"{which} not found")
    which = f'container "{wanted.container}" in pod "{wanted.pod}"'
    status = wanted.status or ContainerStatus(name=wanted.container)
    if status.state.running or status.state.terminated or status.last_state.terminated:
        return click.ClickException(f"{which} has left no log in {top}")
    why = f": {status.state.waiting.reason}" if status.state.waiting is not None else ""
    return RefusedError("BadRequest", f"{which} is waiting to start{why}")


def _last(lines: Iterator[bytes], count: int) -> Iterable[bytes]:
    return lines if count < 0 else deque(lines, maxlen=count)


def _show(lines: Iterable[bytes]) -> None:
    sys.stdout.buffer.writelines(line + b"\n" for line in lines)
    sys.stdout.buffer.flush()


def _follow(log: LogReader, folder: int, wanted: _Wanted, attempt: int, server: str) -> None:
    from minikubelet.cli.following import follow  # noqa: PLC0415  asyncio takes a while, which the others should not

    def ended(seconds: float) -> bool:
        """Whether the instance has ended, as soon as it has and after these seconds at the latest."""
        path = f"/pods/{quote(wanted.namespace)}/{quote(wanted.pod)}?uid={quote(wanted.uid)}"
        path += f"&container={quote(wanted.container)}&restartCount={attempt}&seconds={seconds}"
        try:
            pod = decoded(fetch(server, path), Pod, server=server)
        except RefusedError:  # the pod has gone
            return True
        return not any(
            (it.name, it.restart_count) == (wanted.container, attempt) and it.state.running is not None
            for it in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )

    try:
        follow(folder, log.name, show=lambda: _show(log.read()), ended=ended)
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)  # a thread still waits for the daemon's answer
