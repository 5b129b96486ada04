"""How the commands that act ask the running daemon: HTTP over its control socket, which root owns.

By the standard library, as in `client`. Each step of an answer is handed on the moment it comes.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlencode

import click
import msgspec

from minikubelet.cli.errors import RefusedError, UnreachedError
from minikubelet.cli.settings import SOCKET, control_socket, settings
from minikubelet.cli.terminal import say
from minikubelet.cli.unix_http import UnixConnection, unreached
from minikubelet.config_file import ConfigError

#: Seconds to connect and send. What the daemon does may take as long as it takes.
_TIMEOUT = 10.0

socket_option = click.option(
    "--socket",
    "socket_path",
    envvar="MINIKUBELET_SOCKET",
    type=click.Path(path_type=Path),
    help="The daemon's control socket (also: the environment variable MINIKUBELET_SOCKET). "
    f"Default: {SOCKET} in rootDir of its configuration.",
)


class Step(msgspec.Struct, frozen=True):
    """Something that was done: for people, and as `kind/name` for scripts."""

    message: str = ""
    object: str = ""


class _Line(msgspec.Struct):
    """A step, or the Status at the end (which has a kind)."""

    kind: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    object: str = ""


def path_of(*parts: str, **query: object) -> str:
    """A path of the API from its parts, with what of `query` is not None.

    Raises click.ClickException: something of it is not UTF-8.
    """
    given = {key: str(value) for key, value in query.items() if value is not None}
    for text in (*parts, *given.values()):
        if not _is_utf8(text):
            shown = os.fsencode(text).decode(errors="backslashreplace")
            raise click.ClickException(f"{shown} is not UTF-8; a file with such a name can be renamed")
    return "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{urlencode(given)}" if given else "")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def act(socket_path: Path | None, method: str, path: str, *, body: bytes | IO[bytes] | Any = None) -> Iterator[Step]:
    """Have a command carried out; yields its steps as they are done.

    `body`: bytes or a file are sent as they are, anything else as JSON. Raises RefusedError when the daemon refuses it
    or fails on the way, click.ClickException when it cannot be asked.
    """
    where = (socket_path or _default()).absolute()
    connection = UnixConnection(where, timeout=_TIMEOUT)
    headers = {"Content-Type": "application/octet-stream"}
    if body is not None and not isinstance(body, bytes) and not hasattr(body, "read"):
        body, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
    try:
        try:
            connection.request(method, path, body=body, headers=headers if body is not None else {})
            if connection.sock is not None:
                connection.sock.settimeout(None)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachedError(unreached(where, error, named_by="--socket, MINIKUBELET_SOCKET")) from error
        with answer:
            yield from _steps(answer, where)
    finally:
        connection.close()


def tell(steps: Iterator[Step]) -> None:
    """Print what is done as it is done."""
    for step in steps:
        say(step.message)


def told(steps: Iterator[Step], *, fine: str | None = None) -> bool:
    """The same for one of several: what the daemon refuses goes to stderr, and False is returned.

    `fine`: the reason of a refusal that is none.
    """
    try:
        tell(steps)
    except RefusedError as refused:
        if refused.reason != fine:
            refused.show()
            return False
    return True


def _steps(answer: http.client.HTTPResponse, where: Path) -> Iterator[Step]:
    try:
        for text in answer:
            line = msgspec.json.decode(text, type=_Line)
            if line.kind != "Status":
                yield Step(line.message, line.object)
            elif line.status == "Success":
                return
            else:
                raise RefusedError(line.reason, line.message)
    except msgspec.MsgspecError as error:
        raise click.ClickException(
            f"what answers on {where} is not understood ({error}); is it minikubelet?"
        ) from error
    except (OSError, http.client.HTTPException):
        pass
    raise click.ClickException(
        f"the daemon ended before it had told all (it answered on {where}); what was told up to here has been done"
    )


def _default() -> Path:
    try:
        return control_socket(settings())
    except ConfigError as error:
        raise click.ClickException(f"the configuration cannot be used, so say --socket:\n{error}") from error
