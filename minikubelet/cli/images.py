"""`minikubelet images`: what images there are and what for; pull, import and prune.

The list comes from the read-only port, like `get`; what changes something goes over the control socket.
"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from minikubelet.api.base import kubernetes_name
from minikubelet.cli.client import decoded, fetch, server_option
from minikubelet.cli.control import act, path_of, socket_option, tell
from minikubelet.cli.tables import table
from minikubelet.cli.terminal import say
from minikubelet.sizes import human

_SHORT_ID = 12


class Image(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_name):
    id: str
    names: tuple[str, ...] = ()
    size: int = 0
    in_use: bool = False
    protected: str = ""


class _Images(msgspec.Struct, frozen=True):
    items: tuple[Image, ...]


@click.group(name="images", short_help="List, pull, import and prune images.")
def command() -> None:
    """The images on this host: list, pull, import from archives, prune."""


@command.command(name="list", short_help="Every image in containerd, and what keeps it.")
@server_option
def list_images(server: str) -> None:
    """Every image in containerd, whether a container uses it, and what else keeps it.

    PROTECTED has every reason to keep it: `archive` (it comes from the folder of image archives), `manifest` (a
    manifest names it), `sandbox image` (every pod needs it), `pinned` (by containerd); or `others'` (minikubelet has
    not brought it; prune takes it only with --all).
    """
    images = decoded(fetch(server, "/images"), _Images, server=server).items
    say(lines(images) if images else "No images")


def lines(images: tuple[Image, ...]) -> str:
    rows = [
        (name, it.id.removeprefix("sha256:")[:_SHORT_ID], human(it.size), "yes" if it.in_use else "no", it.protected)
        for it in images
        for name in _shown(it)
    ]
    return table(("NAME", "ID", "SIZE", "IN USE", "PROTECTED"), rows)


def _shown(image: Image) -> list[str]:
    """Its tags; by digest only where it has none."""
    return [name for name in image.names if "@" not in name] or list(image.names) or ["<none>"]


@command.command(name="pull")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@socket_option
def pull(names: tuple[str, ...], socket_path: Path | None) -> None:
    """Pull images with this node's own registry credentials."""
    for name in names:
        tell(act(socket_path, "POST", path_of("images", "pull", image=name)))


@command.command(name="import", short_help="Import image archives once.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@socket_option
def import_(files: tuple[Path, ...], socket_path: Path | None) -> None:
    """Import image archives (OCI layout or `docker save`; .tar, .tar.gz, .tar.zst) once.

    The daemon reads the files itself. What shall be there for good belongs into the folder of image archives.
    """
    for file in files:
        tell(act(socket_path, "POST", path_of("images", "import", path=file.absolute())))


@command.command(name="prune", short_help="Remove the images that nothing needs, now.")
@click.option("--all", "everything", is_flag=True, help="Also images that were not brought by minikubelet.")
@socket_option
def prune(socket_path: Path | None, *, everything: bool) -> None:
    """Remove the images that no container, no manifest and no archive needs, now."""
    tell(act(socket_path, "POST", path_of("images", "prune", all="true" if everything else None)))
