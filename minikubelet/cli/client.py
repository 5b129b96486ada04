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

from minikubelet.cli.errors import RefusedError, UnreachedError
from minikubelet.cli.settings import server_url, settings
from minikubelet.cli.unix_http import UnixConnection, unreached
from minikubelet.config import Config
from minikubelet.config_file import ConfigError

T = TypeVar("T")

_TIMEOUT = 10.0
_UNIX = "unix://"
_NAMED_BY = "--server, MINIKUBELET_SERVER"


def default_server() -> str:
    try:
        return server_url(settings())
    except ConfigError:  # the daemon does not run with it; if one runs, it began before
        return server_url(Config())


server_option = click.option(
    "--server",
    envvar="MINIKUBELET_SERVER",
    default=default_server,
    show_default="from its configuration",
    metavar="URL",
    help="Where the daemon answers, also unix:///PATH of its control socket (or the environment variable "
    "MINIKUBELET_SERVER).",
)


class _Failure(msgspec.Struct):
    message: str = ""
    reason: str = ""


def fetch(server: str, path: str) -> bytes:
    """The body at a path. Raises RefusedError for an answer that says no, UnreachedError when there is none."""
    if server.startswith(_UNIX):
        return _fetch_unix(Path(server.removeprefix(_UNIX)), path)
    url = (server if "://" in server else f"http://{server}").rstrip("/") + path
    if not url.startswith(("http://", "https://")):
        raise click.ClickException(f"{server} is not the URL of a server, such as {server_url(Config())}")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310  http or https, checked above
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        raise _refusal(url, error.read(), error.code, str(error.reason)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = "no answer in time" if isinstance(reason, socket.timeout) else getattr(reason, "strerror", None) or reason
        raise UnreachedError(
            f"minikubelet does not answer at {server}: {why}. "
            f"Is it running (systemctl status minikubelet)? Does it listen there ({_NAMED_BY})?"
        ) from error


def _fetch_unix(socket: Path, path: str) -> bytes:
    connection = UnixConnection(socket, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        off = " (the configuration turns the read-only port off: readOnlyPort is 0)" if _is_default(socket) else ""
        raise UnreachedError(unreached(socket, error, named_by=_NAMED_BY) + off) from error
    finally:
        connection.close()
    if answer.status >= 400:
        raise _refusal(f"{_UNIX}{socket}{path}", body, answer.status, answer.reason)
    return body


def _is_default(socket: Path) -> bool:
    return default_server() == f"{_UNIX}{socket}"


def _refusal(url: str, body: bytes, code: int, reason: str) -> RefusedError:
    try:
        told = msgspec.json.decode(body, type=_Failure)
    except msgspec.MsgspecError:
        told = _Failure()
    named = told.reason or {404: "NotFound", 400: "BadRequest"}.get(code, "")
    return RefusedError(named, f"{url}: {told.message or f'{code} {reason}'}")


def decoded(body: bytes, type_: type[T], *, server: str) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise click.ClickException(f"the answer of {server} is not understood ({error}); is it minikubelet?") from error
