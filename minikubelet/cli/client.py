"""How the commands that look ask the running daemon: plain HTTP to its read-only port, or to its control socket.

By the standard library, since a command that takes a third of a second to start is not nice to use.
"""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from minikubelet.cli.unix_http import UnixConnection, unreached

T = TypeVar("T")

DEFAULT_SERVER = "http://127.0.0.1:10255"
_TIMEOUT = 10.0
_UNIX = "unix://"

server_option = click.option(
    "--server",
    envvar="MINIKUBELET_SERVER",
    default=DEFAULT_SERVER,
    show_default=True,
    metavar="URL",
    help="Where the daemon answers, also unix:///PATH of its control socket (or the environment variable "
    "MINIKUBELET_SERVER).",
)


class _Failure(msgspec.Struct):
    message: str = ""


def fetch(server: str, path: str) -> bytes:
    """The body at a path. Raises click.ClickException with a plain message when there is none."""
    if server.startswith(_UNIX):
        return _fetch_unix(Path(server.removeprefix(_UNIX)), path)
    url = (server if "://" in server else f"http://{server}").rstrip("/") + path
    if not url.startswith(("http://", "https://")):
        raise click.ClickException(f"{server} is not the URL of a server, such as {DEFAULT_SERVER}")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310  http or https, checked above
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        raise click.ClickException(f"{url}: {_reason(error)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = "no answer in time" if isinstance(reason, socket.timeout) else getattr(reason, "strerror", None) or reason
        raise click.ClickException(
            f"minikubelet does not answer at {server}: {why}. "
            "Is it running (systemctl status minikubelet)? Does it listen there (--server, MINIKUBELET_SERVER)?"
        ) from error


def _fetch_unix(socket: Path, path: str) -> bytes:
    connection = UnixConnection(socket, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise click.ClickException(unreached(socket, error)) from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise click.ClickException(f"{_UNIX}{socket}{path}: {_message(body) or f'{answer.status} {answer.reason}'}")
    return body


def decoded(body: bytes, type_: type[T], *, server: str) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"the answer of {server} is not understood ({error}); is it minikubelet?") from error


def _reason(error: urllib.error.HTTPError) -> str:
    return _message(error.read()) or f"{error.code} {error.reason}"


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Failure).message
    except msgspec.MsgspecError:
        return ""
