"""`minikubelet validate`: what the daemon would make of manifests, without the daemon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from minikubelet.api.decode import DecodedFile, decode_file
from minikubelet.cli.terminal import say
from minikubelet.config import Config
from minikubelet.sources import desired
from minikubelet.sources.listing import is_manifest


@click.command(name="validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--no-sidecars", is_flag=True, help="As with the feature gate SidecarContainers turned off.")
def command(files: tuple[str, ...], *, no_sidecars: bool) -> None:
    """Check manifests and show every error. A folder stands for the manifests in it, - for standard input.

    The exit status is 1 when anything is wrong. What is wrong goes to standard error, the rest to standard output.
    """
    failed = False
    decoded: dict[str, DecodedFile] = {}
    for name, path in _files(files):
        try:
            if isinstance(path, OSError):
                raise path
            data = sys.stdin.buffer.read() if path is None else path.read_bytes()
        except OSError as failure:
            say(f"{name}: cannot be read: {failure.strerror}", err=True)
            failed = True
            continue
        decoded[name] = decode_file(name, data, node_name=Config().node, sidecar_containers=not no_sidecars)
    found = desired.desired(desired.after(desired.initial(()), decoded, in_force=False), folder_errors={})
    for name, file in decoded.items():
        for note in file.notes:
            say(f"{note} (remark)", err=True)
        for error in found.errors.get(name, ()):
            say(str(error), err=True)
        if name not in found.errors:
            objects = ", ".join(str(desired.object_key(obj)) for obj in file.objects)
            say(f"{name}: ok ({objects or 'it defines nothing'})")
    if failed or found.errors:
        raise click.exceptions.Exit(1)


def _files(arguments: tuple[str, ...]) -> Iterator[tuple[str, Path | OSError | None]]:
    """Each file with the name to show; None is standard input, an error a folder that cannot be read."""
    for argument in arguments:
        path = Path(argument)
        if argument == "-":
            yield "-", None
        elif not _is_folder(path):
            yield argument, path
        else:
            try:
                found = [it for it in sorted(path.iterdir()) if is_manifest(it.name) and not _is_folder(it)]
            except OSError as error:
                yield argument, error
                continue
            if not found:
                say(f"{argument}: there is nothing to check: no file in it ends with .yaml, .yml or .json")
            yield from ((str(it), it) for it in found)


def _is_folder(path: Path) -> bool:
    """False also of what cannot be looked at: to read it will say why."""
    try:
        return path.is_dir()
    except OSError:
        return False
