"""HTTP GET as probes and hooks do it (PH 6.3, 7.4): any certificate, no proxy, no cookies, one connection per request.

One `HttpClient` serves the whole daemon. aiohttp speaks the protocol; what is here are the kubelet's choices (which
headers, which redirects, how much of a body) and Go's words for what can go wrong.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import ssl
from collections.abc import Iterable
from types import TracebackType
from typing import Self
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from minikubelet.api.pod import HTTPGetAction, HTTPHeader
from minikubelet.pods import gotext as text
from minikubelet.pods.probes.handlers.base import MAX_OUTPUT

_REDIRECTS = {301, 302, 303, 307, 308}
_MAX_REDIRECTS = 10
#: Headers that are never taken from `httpHeaders`: the client decides on them.
_OWN_HEADERS = {"Content-Length", "Transfer-Encoding", "Trailer"}
_TOO_SLOW = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
_TOO_SLOW_BODY = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
NO_TLS_THERE = "http: server gave HTTP response to HTTPS client"
#: OpenSSL's reasons when the other side answers a TLS hello with text.
_NO_TLS_RECORD = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}
#: What makes Go refuse a text as a URL: a broken escape (a query may have them) or a control character.
_NO_URL = re.compile(r"[^?]*%(?![0-9A-Fa-f]{2})|.*[\x00-\x1f\x7f]", re.DOTALL)
_LEGAL_IN_PATH = "/%:@!$&'()*+,;=~[]"
_LEGAL_IN_QUERY = _LEGAL_IN_PATH + '?"<>^`{|}\\'


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to get. `host` and `port` say where to connect; a Host header may name something else."""

    scheme: str
    host: str
    port: int
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def url(self) -> str:
        return f"{self.scheme}://{text.join_host_port(self.host, self.port)}{self.target}"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The final response. `body_error`: why the body (at most 10240 bytes of it) could not be read, or empty."""

    status: int
    body: bytes
    body_error: str = ""


class TransportError(Exception):
    """No response came. `reason` without, the text with the request in front: `Get "<url>": <reason>`."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"Get {text.quote(url)}: {reason}")
        self.reason = reason


def request_for(action: HTTPGetAction, *, host: str, port: int, user_agent: str) -> Request:
    """The request of an httpGet action; `user_agent` and `Accept: */*` where the action names none (PH 6.3)."""
    return Request(
        scheme=action.scheme.lower(),
        host=host,
        port=port,
        target=_target(action.path),
        headers=tuple(_headers(action.http_headers, user_agent=user_agent)),
    )


def _target(path: str) -> str:
    """Path and query of the request line. `path` is a URL reference; one that is none is taken as a plain path."""
    if _NO_URL.match(path):
        return "/" + quote(path.removeprefix("/"), safe="/:@!$&'()*+,;=~")
    parts = urlsplit(path)
    resource = "/" + quote(parts.path.removeprefix("/"), safe=_LEGAL_IN_PATH)
    return f"{resource}?{quote(parts.query, safe=_LEGAL_IN_QUERY)}" if parts.query else resource


def _headers(given: Iterable[HTTPHeader], *, user_agent: str) -> Iterable[tuple[str, str]]:
    """The action's headers in order, names canonical, completed; an empty User-Agent or Accept is left out."""
    headers = [("-".join(part.capitalize() for part in header.name.split("-")), header.value) for header in given]
    names = {name for name, _ in headers}
    if "User-Agent" not in names:
        yield "User-Agent", user_agent
    if "Accept" not in names:
        yield "Accept", "*/*"
    for name, value in headers:
        if name not in _OWN_HEADERS and (value or name not in {"User-Agent", "Accept"}):
            yield name, value
    if "Connection" not in names:
        yield "Connection", "close"


class HttpClient:
    """An async context manager; `get` may be called concurrently without limit."""

    _session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, force_close=True, limit=0, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
            auto_decompress=False,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, request: Request, *, timeout: float | None) -> Response:  # noqa: ASYNC109 (texts name which phase it ended)
        """The final response; `timeout` seconds (None: no limit) bound all of it, from connect to body.

        Redirects are followed while the host name stays that of the request, ten at most (PH 6.3).
        Raises TransportError. A body that breaks off is no error here: see `Response.body_error`.
        """
        progress = _Progress(url=request.url)
        try:
            async with asyncio.timeout(timeout):
                return await self._follow(request, progress)
        except TimeoutError as problem:
            if progress.response is not None:
                return msgspec.structs.replace(progress.response, body_error=_TOO_SLOW_BODY)
            raise TransportError(progress.url, _TOO_SLOW) from problem
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise TransportError(progress.url, _reason(problem, progress.url)) from problem

    async def _follow(self, request: Request, progress: _Progress) -> Response:
        named_host = next((value for name, value in request.headers if name == "Host" and value), "")
        redirects = 0
        while True:
            headers = CIMultiDict((name, value) for name, value in request.headers if name != "Host")
            headers["Host"] = named_host or urlsplit(progress.url).netloc
            async with self._session.get(
                URL(progress.url, encoded=True), headers=headers, allow_redirects=False
            ) as answer:
                location = answer.headers.get("Location", "") if answer.status in _REDIRECTS else ""
                following = urljoin(progress.url, quote(location, safe=_LEGAL_IN_QUERY + "#"))
                if not location or urlsplit(following).hostname != urlsplit(request.url).hostname:
                    return await _read(answer, progress)
            redirects += 1
            if redirects == _MAX_REDIRECTS:
                raise TransportError(location, f"stopped after {_MAX_REDIRECTS} redirects")
            if urlsplit(location).netloc:
                named_host = ""  # it was meant for the first host only
            progress.url = following


class _Progress:
    """How far a request has come: the URL under way, and the response once its head is there."""

    def __init__(self, *, url: str) -> None:
        self.url = url
        self.response: Response | None = None


async def _read(answer: aiohttp.ClientResponse, progress: _Progress) -> Response:
    body = bytearray()
    progress.response = Response(status=answer.status, body=b"")
    problem_text = ""
    try:
        while len(body) < MAX_OUTPUT and (chunk := await answer.content.read(MAX_OUTPUT - len(body))):
            body += chunk
    except aiohttp.ClientPayloadError:
        problem_text = "unexpected EOF"
    except (aiohttp.ClientError, OSError) as problem:
        if isinstance(problem, TimeoutError):
            raise
        problem_text = _reason(problem, progress.url)
    return Response(status=answer.status, body=bytes(body), body_error=problem_text)


def _reason(problem: Exception, url: str) -> str:
    """Go's words for what went wrong before a response came."""
    parts = urlsplit(url)
    cause: BaseException = problem.os_error if isinstance(problem, aiohttp.ClientConnectorError) else problem
    number: int | None = getattr(cause, "errno", None)
    if isinstance(cause, ssl.SSLError):
        return NO_TLS_THERE if cause.reason in _NO_TLS_RECORD else f"tls: {cause.reason or cause}"
    if isinstance(cause, ConnectionError | aiohttp.ServerDisconnectedError) and not number:
        return "EOF"  # asyncio's own words for a peer that hung up come without a number
    if number in (errno.ECONNRESET, errno.EPIPE):  # also while TLS begins, which to aiohttp is part of connecting
        return f"read tcp {parts.netloc}: read: {os.strerror(number).lower()}"
    if isinstance(problem, aiohttp.ClientConnectorError):
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return text.dial_error(parts.hostname or "", port, problem.os_error)
    if isinstance(problem, aiohttp.ClientResponseError):
        return f"net/http: HTTP/1.x transport connection broken: malformed HTTP response: {problem.message}"
    return str(problem) or type(problem).__name__
