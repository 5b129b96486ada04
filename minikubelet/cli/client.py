"""How the commands ask the running daemon: plain HTTP to its read-only port.

By the standard library, since a command that takes a third of a second to start is not nice to use.
"""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request
from typing import TypeVar

import click
import msgspec

T = TypeVar("T")

DEFAULT_SERVER = "http://127.0.0.1:10255"
_TIMEOUT = 10.0

server_option = click.option(
    "--server",
    envvar="MINIKUBELET_SERVER",
    default=DEFAULT_SERVER,
    show_default=True,
    metavar="URL",
    help="Where the daemon answers (also: the environment variable MINIKUBELET_SERVER).",
)


class _Failure(msgspec.Struct):
    message: str = ""


def fetch(server: str, path: str) -> bytes:
    """The body at a path. Raises click.ClickException with a plain message when there is none."""
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


def decoded(body: bytes, type_: type[T], *, server: str) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"the answer of {server} is not understood ({error}); is it minikubelet?") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        message = msgspec.json.decode(error.read(), type=_Failure).message
    except (msgspec.MsgspecError, OSError):
        message = ""
    return message or f"{error.code} {error.reason}"
