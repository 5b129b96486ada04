"""Looks at the images there are and removes those that nothing needs: every five minutes, and when told to (GI-1).

`image_gc` decides. `daemon` runs one `ImageKeeper`; the server lists and prunes by it. A pass takes seconds, and pods
come meanwhile: so each image is looked at once more right before it is removed, and `pods.image_uses` asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

import structlog

from minikubelet.node import image_gc
from minikubelet.node.image_gc import Image, Limits, Sight, Usage
from minikubelet.pods.image_uses import ImageUses
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.runtime.images import Record
from minikubelet.runtime.pb import cri_pb2

log = structlog.get_logger(__name__)

#: Seconds between two passes.
PERIOD = 300.0


class Images(Protocol):
    """What is needed of `runtime.images.ImageService`."""

    async def list_images(self) -> list[cri_pb2.Image]: ...
    async def status(self, image: str) -> cri_pb2.Image | None: ...
    async def remove(self, image: str) -> None: ...
    async def records(self) -> dict[str, Record]: ...
    async def filesystem(self) -> list[cri_pb2.FilesystemUsage]: ...


class Containers(Protocol):
    """What is needed of `runtime.cri.CRIClient`."""

    async def list_containers(self) -> list[cri_pb2.Container]: ...
    async def list_pod_sandboxes(self) -> list[cri_pb2.PodSandbox]: ...


class Archives(Protocol):
    """What is needed of `sources.archives.ImageArchives`."""

    async def idle(self) -> None: ...
    def names(self) -> Collection[str]: ...


class ImageKeeper:
    def __init__(
        self,
        images: Images,
        containers: Containers,
        *,
        archives: Archives,
        uses: ImageUses,
        wanted: Callable[[], Collection[str]],
        sandbox_image: Callable[[], str],
        limits: Limits,
        short: Callable[[str], None],
        clock: Callable[[], float],
        usage: Callable[[str], Usage] | None = None,
    ) -> None:
        """`wanted`: full names of the images that manifests and pods name.

        `short` is told when too little could be freed. `usage`: of the file system at a path; blocking. `clock` in unix
        seconds.
        """
        self._images = images
        self._containers = containers
        self._archives = archives
        self._uses = uses
        self._wanted = wanted
        self._sandbox_image = sandbox_image
        self._limits = limits
        self._short = short
        self._clock = clock
        self._usage = usage or usage_at
        self._sights: Mapping[str, Sight] = {}
        self._removing = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
                await asyncio.sleep(PERIOD)
                await self.collect()
            except (ContainerRuntimeError, OSError) as error:
                log.warning("unused images cannot be looked for now", error=str(error), seconds=PERIOD)
                await asyncio.sleep(PERIOD)
            except Exception:
                log.exception("looking for unused images failed", seconds=PERIOD)  # which is no reason to end
                await asyncio.sleep(PERIOD)

    async def look(self) -> list[Image]:
        """All images there are. Raises ContainerRuntimeError."""
        found = await self._images.list_images()
        records = await self._images.records()
        used = await self._used()
        images = [self._seen(it, records, used) for it in found]
        self._sights = image_gc.seen(self._sights, images, now=self._clock())
        return images

    async def _used(self) -> set[str]:
        """The ids and names of the images that containers have, running or not."""
        used = {ref for it in await self._containers.list_containers() for ref in (it.image_ref, it.image.image)}
        if await self._containers.list_pod_sandboxes():
            used.add(self._sandbox_image())
        return used

    def _seen(self, image: cri_pb2.Image, records: Mapping[str, Record], used: Collection[str]) -> Image:
        names = (*image.repo_tags, *image.repo_digests)
        return Image(
            id=image.id,
            names=names,
            size=image.size,
            in_use=any(ref in used for ref in (image.id, *names)),
            protected=image_gc.protection(
                (image.id, *names),
                pinned=image.pinned,
                brought=bool(names) and all(name in records and records[name].brought for name in names),
                sandbox_image=self._sandbox_image(),
                archives=self._archives.names(),
                wanted=self._wanted(),
            ),
        )

    async def collect(self) -> None:
        """One pass (GI-1). Raises ContainerRuntimeError, OSError."""
        async with self._removing:
            await self._archives.idle()  # or what they hold would not be known
            images = await self.look()
            now, limits = self._clock(), self._limits
            gone = [it async for it in self._remove(image_gc.too_old(images, self._sights, limits=limits, now=now))]
            needed = image_gc.bytes_to_free(await self._filesystem(), limits)
            if not needed:
                return
            left = [it for it in images if it not in gone]
            freed = 0
            removing = self._remove(image_gc.in_turn(left, self._sights, limits=limits, now=now))
            async with contextlib.aclosing(removing):
                async for image in removing:
                    freed += image.size
                    if freed >= needed:
                        break
            if freed < needed:
                self._short(
                    f"the file system with the images is fuller than {limits.high} %: {needed} bytes of images were to "
                    f"be removed, but only {freed} could be"
                )

    async def prune(self, *, others: bool) -> AsyncGenerator[Image, None]:
        """Remove what nothing needs, whatever its age; yields each image when it is gone. Raises ContainerRuntimeError.

        `others`: also what others have brought.
        """
        async with self._removing:
            await self._archives.idle()
            images = await self.look()
            spare = [it for it in images if not it.in_use and it.protected in {"", image_gc.OTHERS if others else ""}]
            async with contextlib.aclosing(self._remove(spare)) as removing:
                async for image in removing:
                    yield image

    async def _remove(self, images: Sequence[Image]) -> AsyncGenerator[Image, None]:
        for image in images:
            try:
                removed = await self._remove_one(image)
            except ContainerRuntimeError as error:
                log.warning("an image cannot be removed", image=_shown(image), error=str(error))
                continue
            if removed:
                log.info("image removed", image=_shown(image), size=image.size)
                yield image

    async def _remove_one(self, image: Image) -> bool:
        """Unless it is needed by now, or has got another name since it was chosen: then the next pass may have it.

        Raises ContainerRuntimeError.
        """
        with self._uses.removing((image.id, *image.names)) as may:
            if not may:
                return False
            await self._archives.idle()
            there = await self._images.status(image.id)
            if there is None:
                return False
            records, used = await self._images.records(), await self._used()
            now = self._seen(there, records, used)  # last, so that nothing can come between this and the removal
            if now.in_use or now.protected != image.protected or not set(now.names) <= set(image.names):
                return False
            await self._images.remove(image.id)
        return True

    async def _filesystem(self) -> Usage:
        systems = await self._images.filesystem()
        if not systems:
            return Usage(capacity=0, available=0)
        return await asyncio.to_thread(self._usage, systems[0].fs_id.mountpoint)


def usage_at(path: str) -> Usage:
    """Raises OSError."""
    found = os.statvfs(path)
    return Usage(capacity=found.f_blocks * found.f_frsize, available=found.f_bavail * found.f_frsize)


def _shown(image: Image) -> str:
    return next(iter(image.names), image.id)
