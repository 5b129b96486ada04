"""The control socket: what can act is here and nowhere else, on a unix socket that root alone can open.

`daemon` serves on it all that the read-only port has, and routes that act. To add one, write an async generator that
carries the command out and yields a `Step` for each thing worth telling, and put `operation(method, path, generator)`
into the list of routes:

    async def pull(request: web.Request) -> AsyncIterator[Step]:
        ...                                     # may raise RefusedError("NotFound", "there is no ...")
        yield Step(message="image pulled")

    operation("POST", "/images/pull", pull)

The answer is lines of JSON, each sent at once: the steps, then a Kubernetes `Status` that says how it ended. A refusal
before the first step has its own HTTP status. So a command that takes long tells how far it is, and what a step tells
of has been done. Whoever may open the socket may do everything: its mode (0600, in a folder of mode 0750) is the access
check, which the kernel makes at each connection; asking for the peer's uid as well would add nothing to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import msgspec
import structlog
from aiohttp import web

from minikubelet.api.refusals import RefusedError
from minikubelet.server.app import CODES, INTERNAL, ListenError, status_body

_log = structlog.get_logger(__name__)

#: The socket's name in the daemon's rootDir.
SOCKET = "minikubelet.sock"
_MODE = 0o600
_BACKLOG = 64


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a command has done, for people; `object` is what it did it to, for scripts (`job.batch/NAME`)."""

    message: str
    object: str = ""


#: Carries a command out. It is closed when its client goes away: what it is to do whole, it does between two steps.
Operation = Callable[[web.Request], AsyncGenerator[Step, None]]


def operation(method: str, path: str, run: Operation) -> web.RouteDef:
    """A route that acts."""

    async def answer(request: web.Request) -> web.StreamResponse:
        async with contextlib.aclosing(run(request)) as steps:
            first = await anext(steps, None)  # a refusal until here is the whole answer
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            with contextlib.suppress(ConnectionError):  # nobody is there any more to be told
                await response.prepare(request)
                if first is not None:
                    await response.write(_line(first))
                await response.write(await _rest(response, steps, request) + b"\n")
                await response.write_eof()
            return response

    return web.route(method, path, answer)


async def _rest(response: web.StreamResponse, steps: AsyncIterator[Step], request: web.Request) -> bytes:
    """Send the steps that follow; returns the Status at the end."""
    try:
        async for step in steps:
            await response.write(_line(step))
    except RefusedError as refused:
        return status_body(refused.reason, refused.message, CODES[refused.reason])
    except ConnectionError:
        raise  # nobody is there to be told
    except Exception:  # noqa: BLE001  as for any request: the log has it, and the daemon goes on
        _log.exception("a request failed", method=request.method, path=request.path)
        return status_body("InternalError", INTERNAL, 500)
    return status_body(None, "", 200)


def _line(step: Step) -> bytes:
    return msgspec.json.encode(step) + b"\n"


@contextlib.asynccontextmanager
async def serve_control(app: web.Application, path: Path) -> AsyncIterator[None]:
    """Serve on the socket until left. The caller holds the lock of the folder: an old socket is nobody's any more.

    Raises ListenError.
    """
    try:
        listening = await asyncio.to_thread(_listen, path)
    except OSError as error:
        raise ListenError(f"cannot make the control socket {path}: {error.strerror}") from error
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    try:
        await runner.setup()
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        await runner.cleanup()
        listening.close()


def _listen(path: Path) -> socket.socket:
    """A listening socket at `path`, in place of one that a killed daemon has left.

    At no moment can anybody else open it: the mode is given to the socket before it has a name (umask, which belongs to
    the whole process, is left alone), and it gets its final name, by a rename, when it listens.
    """
    if _is_something_else(path):
        raise ListenError(f"{path} is there and is no socket: move it away, the control socket goes there")
    staged = f".{path.name}.new"
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listening.fileno(), _MODE)  # Linux makes the name with this mode
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder)
        listening.bind(f"/proc/self/fd/{folder}/{staged}")  # the path itself may be longer than an address
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        os.rename(staged, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(folder)
    return listening


def _is_something_else(path: Path) -> bool:
    try:
        return not stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False
