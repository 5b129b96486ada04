"""A registry of one image, with basic authentication, on the loopback: containerd pulls from there without TLS."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from tests.support.images import BUSYBOX, Image, write_archive

_REALM = {"WWW-Authenticate": 'Basic realm="tests"'}


class Registry:
    """Use as an async context manager. Every repository and tag is the same image."""

    def __init__(self, folder: Path, *, users: Sequence[tuple[str, str]] = (), image: Image = BUSYBOX) -> None:
        """`folder`: an empty one. `users`: who may pull, with their passwords; none: everybody."""
        self.users = set(users)
        #: Whoever asked for a manifest, in order; "": nobody in particular.
        self.askers: list[str] = []
        self.address = ""
        self._blobs, self._manifest, self._type = _content(write_archive(folder / "image.tar", (image,)))
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v2/", self._root)
        app.router.add_get("/v2/{name:.+}/manifests/{reference}", self._manifests)
        app.router.add_get("/v2/{name:.+}/blobs/{digest}", self._blob)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _root(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response({})

    async def _manifests(self, request: web.Request) -> web.Response:
        self.askers.append(_login(request)[0])
        self._check(request)
        headers = {"Docker-Content-Digest": self._manifest}
        return web.Response(body=self._blobs[self._manifest], content_type=self._type, headers=headers)

    async def _blob(self, request: web.Request) -> web.Response:
        self._check(request)
        data = self._blobs.get(request.match_info["digest"])
        if data is None:
            raise web.HTTPNotFound
        return web.Response(body=data, content_type="application/octet-stream")

    def _check(self, request: web.Request) -> None:
        if self.users and _login(request) not in self.users:
            raise web.HTTPUnauthorized(headers=_REALM)


def _login(request: web.Request) -> tuple[str, str]:
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    user, _, password = base64.b64decode(value).decode().partition(":") if scheme == "Basic" else ("", "", "")
    return user, password


def _content(archive: Path) -> tuple[dict[str, bytes], str, str]:
    """An archive's blobs by digest, and the digest and media type of its first image's manifest."""
    with tarfile.open(archive) as tar:
        files = {member.name: file.read() for member in tar if (file := tar.extractfile(member)) is not None}
    archive.unlink()
    first: dict[str, Any] = json.loads(files["index.json"])["manifests"][0]
    blobs = {f"sha256:{name.rsplit('/', 1)[1]}": data for name, data in files.items() if name.startswith("blobs/")}
    return blobs, first["digest"], first["mediaType"]
