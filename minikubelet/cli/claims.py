"""`minikubelet claims`: what persistent volume claims have left on this host, and its removal.

It works on the state folder itself, with or without a running daemon: the daemon makes a claim's directory when a pod
first uses it, and never removes one.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click
import msgspec

from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.settings import settings
from minikubelet.cli.tables import table
from minikubelet.cli.terminal import say
from minikubelet.cli.views import Pod
from minikubelet.config_file import ConfigError
from minikubelet.pods.volumes.claim import users_of
from minikubelet.pods.volumes.layout import Layout, UnsafeNameError
from minikubelet.pods.volumes.removal import remove_tree
from minikubelet.pods.volumes.usage import used_bytes
from minikubelet.sizes import human

_root_option = click.option(
    "--root", type=click.Path(path_type=Path), help="The daemon's state folder. Default: rootDir of its configuration."
)


@click.group(name="claims", short_help="List and delete what persistent volume claims have left.")
def command() -> None:
    """The directories of persistent volume claims: list them, delete one."""


@command.command(name="list", short_help="Every claim that has a directory.")
@_root_option
@server_option
def list_claims(root: Path | None, server: str) -> None:
    """Every claim that has a directory, with the space it takes, and the pods that use it."""
    layout = _layout(root)
    names = _pod_names(server)
    rows = []
    for namespace in _directories(layout.claims):
        for claim in _directories(namespace):
            users = ",".join(names.get(uid, uid) for uid in users_of(layout, namespace.name, claim.name)) or "<none>"
            rows.append((namespace.name, claim.name, human(used_bytes(claim)), users, str(claim)))
    if rows:
        say(table(("NAMESPACE", "NAME", "SIZE", "PODS", "DIRECTORY"), rows))
    else:
        say(f"No claims below {layout.claims}")


@command.command(name="delete")
@click.argument("claim", metavar="[NAMESPACE/]NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_root_option
@server_option
def delete_claim(claim: str, root: Path | None, server: str, *, yes: bool) -> None:
    """Delete a claim's directory and all that is in it, for good. No pod may use it any more."""
    layout = _layout(root)
    namespace, _, name = claim.rpartition("/")
    namespace = namespace or "default"
    try:
        path = layout.claim(namespace, name)
    except UnsafeNameError as error:
        raise click.ClickException(f"{claim} is no name of a claim: {error}") from error
    try:
        there = path.is_dir()
        users = list(users_of(layout, namespace, name))
    except PermissionError as error:
        raise click.ClickException(f"{layout.root} belongs to another user; run this as root") from error
    if not there:
        raise click.ClickException(f"there is no claim {namespace}/{name} below {layout.claims}")
    if users:
        names = _pod_names(server)
        pods = ", ".join(names.get(uid, f"the one with the uid {uid}") for uid in users)
        raise click.ClickException(f"{namespace}/{name} is in use by these pods: {pods}; remove their manifests first")
    if not yes:
        click.confirm(f"Delete {path} and all that is in it?", abort=True)
    gone = path.with_name(f".deleted-{secrets.token_hex(4)}")
    try:
        path.rename(gone)  # from now on a pod that comes gets an empty one
        remove_tree(gone)
    except OSError as error:
        raise click.ClickException(f"it could not be deleted completely: {error}") from error
    say(f"claim {namespace}/{name} deleted")


class _Pods(msgspec.Struct):
    items: list[Pod] | None = None


def _pod_names(server: str) -> dict[str, str]:
    """NAMESPACE/NAME by uid, of the pods that the daemon knows; it need not run."""
    try:
        pods = decoded(fetch(server, "/pods"), _Pods, server=server).items or []
    except click.ClickException:
        return {}
    return {it.metadata.uid: f"{it.metadata.namespace}/{it.metadata.name}" for it in pods}


def _layout(root: Path | None) -> Layout:
    if root is not None:
        return Layout(root.absolute())
    try:
        return Layout(settings().root_dir)
    except ConfigError as error:
        raise click.ClickException(f"the configuration cannot be used, so say --root:\n{error}") from error


def _directories(folder: Path) -> list[Path]:
    try:
        found = os.scandir(folder)
    except FileNotFoundError:
        return []
    except PermissionError as error:
        raise click.ClickException(f"{folder} belongs to another user; run this as root") from error
    with found as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return [folder / name for name in sorted(names) if not name.startswith(".")]
