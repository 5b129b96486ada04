"""`minikubelet run`: the daemon itself, in the foreground."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from minikubelet import logs
from minikubelet.cli.settings import DEFAULT_CONFIG
from minikubelet.config_file import ConfigError, load


class _UnusableConfig(click.ClickException):
    #: EX_CONFIG of sysexits.h: the unit does not start it again until somebody has mended the file.
    exit_code = 78


def _absolute(path: Path | None) -> str | None:
    return str(path.absolute()) if path is not None else None


@click.command(name="run")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help=f"The configuration file. Default: {DEFAULT_CONFIG} if it is there.",
)
@click.option("--manifests", type=click.Path(path_type=Path), help="The folder of manifests (staticPodPath).")
@click.option("--root", type=click.Path(path_type=Path), help="The folder of the daemon's own state (rootDir).")
@click.option("--containerd", metavar="ADDRESS", help="containerd's socket (containerRuntimeEndpoint).")
@click.option("--listen", metavar="HOST:PORT", help="Where the read-only server listens (address, readOnlyPort).")
def command(
    config_file: Path | None, manifests: Path | None, root: Path | None, containerd: str | None, listen: str | None
) -> None:
    """Run the daemon. SIGTERM or SIGINT ends it; containers go on."""
    overrides: dict[str, tuple[str, Any]] = {}
    for key, flag, value in (
        ("staticPodPath", "--manifests", _absolute(manifests)),
        ("rootDir", "--root", _absolute(root)),
        ("containerRuntimeEndpoint", "--containerd", containerd),
    ):
        if value is not None:
            overrides[key] = (flag, value)
    if listen is not None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise click.UsageError(f"--listen: {listen!r} is not HOST:PORT, such as 127.0.0.1:10255 or [::1]:10255")
        overrides["address"] = ("--listen", host.removeprefix("[").removesuffix("]"))
        overrides["readOnlyPort"] = ("--listen", int(port))
    if config_file is None and DEFAULT_CONFIG.is_file():
        config_file = DEFAULT_CONFIG
    try:
        config = load(config_file, overrides=overrides)
    except ConfigError as error:
        raise _UnusableConfig("the configuration cannot be used:\n" + str(error)) from error
    from minikubelet import daemon  # noqa: PLC0415  its libraries take a while, which `--help` should not
    from minikubelet.server.app import ListenError  # noqa: PLC0415  as above

    logs.set_up(config.logging.format)
    try:
        asyncio.run(daemon.run(config))
    except (daemon.StartError, ListenError) as error:
        raise click.ClickException(str(error)) from error
