"""The commands about images: `image_routes` only show, `image_operations` are for the control socket.

    GET    /images                         what there is, in use and protected by what
    POST   /images/pull?image=NAME         with this node's own credentials
    POST   /images/import?path=PATH        an archive on this host
    POST   /images/prune[?all=true]        remove what nothing needs; with `all` also what others brought

An import names a path instead of sending the file: whoever may open the socket is root and may read any file anyway, an
archive is read twice, and a copy of it on the way would take the space of an image once more. Imports follow one
another, and each ends when its client goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec
from aiohttp import web

from minikubelet.api.base import kubernetes_name
from minikubelet.api.image_name import ImageNameError, full_name
from minikubelet.api.refusals import RefusedError
from minikubelet.imaging import Imaging
from minikubelet.pods.gotext import duration
from minikubelet.runtime.archive import ArchiveError, NamedImage
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.server.clients import ClientGoneError, while_asked
from minikubelet.server.control import Step, operation
from minikubelet.sizes import human

Steps = AsyncGenerator[Step, None]

#: Seconds in which containerd has to tell what it has: less than who asks waits for us.
_LOOK = 5.0


class ImageShown(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_name):
    id: str
    names: tuple[str, ...] = ()
    #: Bytes, as the runtime counts them.
    size: int = 0
    in_use: bool = False
    #: What keeps it from being removed although nothing uses it; empty: nothing.
    protected: str = ""


class ImageList(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[ImageShown, ...]
    kind: str = "ImageList"


def image_routes(imaging: Imaging) -> tuple[web.RouteDef, ...]:
    async def listed(_: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_LOOK), _refusing():
                images = await imaging.keeper.look()
        except TimeoutError as error:
            text = (
                f"containerd has not told its images within {_LOOK:.0f} s; does it hang (systemctl status containerd)?"
            )
            raise RefusedError("ServiceUnavailable", text) from error
        shown = tuple(
            ImageShown(id=it.id, names=it.names, size=it.size, in_use=it.in_use, protected=it.protected)
            for it in sorted(images, key=lambda it: it.names or (it.id,))
        )
        return web.Response(body=msgspec.json.encode(ImageList(items=shown)), content_type="application/json")

    return (web.get("/images", listed),)


def image_operations(imaging: Imaging) -> tuple[web.RouteDef, ...]:
    importing = asyncio.Lock()

    async def imported(path: Path) -> list[NamedImage]:
        async with importing:
            return await imaging.service.import_archive(path)

    async def pull(request: web.Request) -> Steps:
        image = _given(request, "image")
        try:
            name = full_name(image)
        except ImageNameError as error:
            raise RefusedError("Invalid", str(error)) from error
        yield Step(message=f"pulling {name}")
        began = time.monotonic()
        async with _refusing(f"{name} cannot be pulled: "):
            await imaging.puller.pull(image)
        imaging.news.arrived([name])
        took = duration(time.monotonic() - began)
        yield Step(message=f"{name} pulled in {took}", object=f"image/{name}")

    async def import_(request: web.Request) -> Steps:
        path = Path(_given(request, "path"))
        if not path.is_absolute():
            raise RefusedError("BadRequest", f"path: {path} is not an absolute path")
        if importing.locked():
            yield Step(message=f"{path} is imported when the import that goes on has ended")
        try:
            async with _refusing(f"{path} cannot be imported: "):
                loaded = await while_asked(request, imported(path))
        except ClientGoneError:
            return
        except ArchiveError as error:
            raise RefusedError("Invalid", str(error)) from error
        imaging.news.arrived([image.name for image in loaded])
        for image in loaded:
            yield Step(message=f"{image.name} imported", object=f"image/{image.name}")

    async def prune(request: web.Request) -> Steps:
        if not imaging.informed.is_set():
            raise RefusedError("ServiceUnavailable", "it is not known yet what the manifests need; try again later")
        count = size = 0
        async with _refusing("stopped on the way: "):
            removing = imaging.keeper.prune(others=request.query.get("all") == "true")
            async with contextlib.aclosing(removing):
                async for image in removing:
                    name = next(iter(image.names), image.id)
                    count, size = count + 1, size + image.size
                    yield Step(message=f"{name} removed, {human(image.size)}", object=f"image/{name}")
        yield Step(message=f"{count} {'image' if count == 1 else 'images'} removed, {human(size)}")

    return (
        operation("POST", "/images/pull", pull),
        operation("POST", "/images/import", import_),
        operation("POST", "/images/prune", prune),
    )


def _given(request: web.Request, key: str) -> str:
    if not (value := request.query.get(key, "")):
        raise RefusedError("BadRequest", f"{key} is missing")
    return value


@contextlib.asynccontextmanager
async def _refusing(prefix: str = "") -> AsyncIterator[None]:
    """Tell what the runtime says as the reason of a refusal."""
    try:
        yield
    except ContainerRuntimeError as error:
        raise RefusedError("ServiceUnavailable", f"{prefix}{error}") from error
