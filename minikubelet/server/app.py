"""The read-only HTTP server: what the daemon shows of itself, to anybody on this host.

`daemon` makes the application of its `Parts` and serves it with `serve`; other rooms add routes of their own. It
listens on loopback only and answers only requests that name a loopback host, so that no web page can read it through
a name of its own (DNS rebinding). Errors are Kubernetes' `Status` objects. What acts is in `control`.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from minikubelet.api.refusals import Reason, RefusedError
from minikubelet.server.parts import Check, Parts

_log = structlog.get_logger(__name__)
_encode = msgspec.json.encode
_JSON = "application/json"


class ListenError(Exception):
    """The server cannot listen; the message says where and why, for people."""


def make_app(parts: Parts, *, routes: Iterable[web.RouteDef] = (), on_network: bool = True) -> web.Application:
    """`on_network`: it can be reached over TCP, so requests have to name a loopback host."""
    app = web.Application(middlewares=[_answer_errors, *([_refuse_foreign_hosts] if on_network else [])])
    app.add_routes(
        [
            web.get("/pods", _pods(parts)),
            web.get("/events", _events(parts)),
            web.get("/status", _status(parts)),
            web.get("/healthz", _checks("healthz", parts.livez)),
            web.get("/livez", _checks("livez", parts.livez)),
            web.get("/readyz", _checks("readyz", parts.readyz)),
            *routes,
        ]
    )
    return app


@contextlib.asynccontextmanager
async def serve(app: web.Application, *, address: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve until left. Yields the address and the port (of use when `port` is 0: any free one). Raises ListenError."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address} port {port}: {error.strerror}; "
                "set readOnlyPort to another port, or end what uses this one"
            ) from error
        bound = runner.addresses[0]
        yield bound[0], bound[1]
    finally:
        await runner.cleanup()


def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this host's loopback: `localhost`, 127.0.0.0/8 or ::1, with or without a port."""
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _pods(parts: Parts) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return _list("Pod", parts.pods())

    return answer


def _events(parts: Parts) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return _list("Event", await parts.events())

    return answer


def _list(kind: str, items: Iterable[bytes]) -> web.Response:
    head = b'{"kind":"' + kind.encode() + b'List","apiVersion":"v1","metadata":{},"items":['
    return web.Response(body=head + b",".join(items) + b"]}", content_type=_JSON)


def _status(parts: Parts) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=_encode(parts.status()), content_type=_JSON)

    return answer


def _checks(name: str, checks: Mapping[str, Check]) -> Answer:
    """`ok`, or with `?verbose` or a failure a line for each check, as Kubernetes' servers answer."""

    async def answer(request: web.Request) -> web.Response:
        found = {check: run() for check, run in checks.items()}
        failed = any(reason is not None for reason in found.values())
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [
            f"[+]{check} ok" if reason is None else f"[-]{check} failed: {reason}" for check, reason in found.items()
        ]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)

    return answer


@web.middleware
async def _refuse_foreign_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    host = request.headers.get("Host")  # browsers always send one; HTTP/1.0 clients need not
    if host is not None and not is_loopback_host(host):
        raise web.HTTPForbidden(text=f"this server answers as localhost only, not as {host!r}")
    return await handler(request)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return _failure(_REASONS.get(error.status, "BadRequest"), _message(error, request), error.status, headers=allow)
    except RefusedError as refused:
        return _failure(refused.reason, refused.message, CODES[refused.reason])
    except Exception:  # noqa: BLE001  nothing of the daemon's insides leaves it, and the next request is answered
        _log.exception("a request failed", method=request.method, path=request.path)
        return _failure("InternalError", INTERNAL, 500)


def _message(error: web.HTTPException, request: web.Request) -> str:
    match error:
        case web.HTTPNotFound():
            return f"there is nothing at {request.path}"
        case web.HTTPMethodNotAllowed():
            return f"{request.path} does not take {error.method}, only {', '.join(sorted(error.allowed_methods))}"
        case _:
            return error.text or error.reason


INTERNAL = "an internal error; the daemon's log has the details"
CODES: Mapping[Reason, int] = {
    "BadRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Invalid": 422,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "Timeout": 504,
}
_REASONS: Mapping[int, Reason] = {code: reason for reason, code in CODES.items() if reason != "AlreadyExists"}


def status_body(reason: Reason | None, message: str, code: int) -> bytes:
    """A Kubernetes `Status`; no reason: success."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure" if reason else "Success"}
    return _encode({**body, "message": message, **({"reason": reason} if reason else {}), "code": code})


def _failure(reason: Reason, message: str, code: int, *, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=status_body(reason, message, code), status=code, headers=headers, content_type=_JSON)
