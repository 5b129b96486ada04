"""Images, as the rest of the daemon wants them: is it there, pull it, load it from a file.

`pods/` asks before each container start, `node/` for clean-up, the command line for imports.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

import grpc.aio
import msgspec
import structlog
from google.protobuf import field_mask_pb2

from minikubelet.api.image_name import full_name, parse
from minikubelet.runtime import archive
from minikubelet.runtime.archive import ArchiveError, NamedImage
from minikubelet.runtime.channel import NAMESPACE
from minikubelet.runtime.errors import ContainerRuntimeError, NotFoundError, translated
from minikubelet.runtime.leases import ImportLeases
from minikubelet.runtime.pb import cri_pb2, cri_pb2_grpc, images_pb2, images_pb2_grpc, types_pb2

log = structlog.get_logger(__name__)

#: Seconds. A pull has no deadline: it takes as long as the image is big.
_SHORT = 30


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What containerd has under an image's name."""

    #: Of the manifest.
    digest: str
    #: By minikubelet; others' images are never removed unasked (GC-4).
    brought: bool


class ImageService:
    """CRI's image service, and imports by containerd's own services. Errors: runtime/errors.py."""

    def __init__(self, channel: grpc.aio.Channel, *, owner: str = "") -> None:
        """`owner`: tells this minikubelet from others at the same containerd, also after a restart."""
        self._channel = channel
        self._leases = ImportLeases(channel, owner=owner)
        self._stub = cri_pb2_grpc.ImageServiceStub(channel)

    async def status(self, image: str) -> cri_pb2.Image | None:
        """The image of that name or id, None if it is not there (also for a malformed name, CD 5)."""
        request = cri_pb2.ImageStatusRequest(image=cri_pb2.ImageSpec(image=image))
        with translated():
            answer = await self._stub.ImageStatus(request, timeout=_SHORT)
        return answer.image if answer.HasField("image") else None

    async def pull(
        self, image: str, *, auth: cri_pb2.AuthConfig | None = None, sandbox: cri_pb2.PodSandboxConfig | None = None
    ) -> str:
        """Pull and return the runtime's reference to the image (IM-3). Takes as long as it takes; may be cancelled."""
        request = cri_pb2.PullImageRequest(image=cri_pb2.ImageSpec(image=image), auth=auth, sandbox_config=sandbox)
        with translated():
            ref = (await self._stub.PullImage(request)).image_ref
        await self._note_pulled(image)
        return ref

    async def _note_pulled(self, image: str) -> None:
        """Note who brought it, under each name that the pull has given it."""
        name = full_name(image)
        repository = parse(name).repository
        try:
            found = await self.status(image)
            digests = [it for it in (found.repo_digests if found else ()) if it.partition("@")[0] == repository]
            await self.mark_brought({name, *digests})
        except ContainerRuntimeError as error:
            log.warning("a pulled image is taken for another's, so it is never removed", image=name, error=str(error))

    async def list_images(self) -> list[cri_pb2.Image]:
        with translated():
            return list((await self._stub.ListImages(cri_pb2.ListImagesRequest(), timeout=_SHORT)).images)

    async def remove(self, image: str) -> None:
        """Remove every name of the image; fine if it is not there."""
        request = cri_pb2.RemoveImageRequest(image=cri_pb2.ImageSpec(image=image))
        with translated():
            await self._stub.RemoveImage(request, timeout=120)

    async def filesystem(self) -> list[cri_pb2.FilesystemUsage]:
        """Where images lie and what they use; containerd refreshes it every 10 s."""
        with translated():
            return list((await self._stub.ImageFsInfo(cri_pb2.ImageFsInfoRequest(), timeout=_SHORT)).image_filesystems)

    async def import_archive(self, path: Path) -> list[NamedImage]:
        """Load an OCI-layout or docker archive; returns its images once CRI sees them.

        Raises archive.ArchiveError if the file is at fault.
        """
        loaded = await archive.import_archive(self._channel, path, leases=self._leases)
        for image in loaded:
            if not await self._appears(image.name):
                raise ArchiveError(
                    f"{path}: containerd does not take {image.name} for an image that it can run: its log may say why"
                )
        return loaded

    async def clear_imports(self) -> int:
        """Remove what this minikubelet was writing when it was killed; of another's, nothing. Returns how many."""
        with translated():
            return await self._leases.end_left()

    async def _appears(self, name: str) -> bool:
        """CRI follows containerd's image events; it is a millisecond or two behind (CD 9)."""
        for _ in range(100):
            if await self.status(name) is not None:
                return True
            await asyncio.sleep(0.02)
        return False

    # ---- containerd's own records ----------------------------------------------------
    async def records(self) -> dict[str, Record]:
        """What containerd has under each name; CRI's names by digest and by id are among them."""
        stub = images_pb2_grpc.ImagesStub(self._channel)
        with translated():
            found = (await stub.List(images_pb2.ListImagesRequest(), timeout=_SHORT, metadata=NAMESPACE)).images
        return {it.name: Record(digest=it.target.digest, brought=archive.BROUGHT in it.labels) for it in found}

    async def mark_brought(self, names: Iterable[str]) -> None:
        """Note on these records that minikubelet brought them. One that is not there is left out."""
        stub = images_pb2_grpc.ImagesStub(self._channel)
        mask = field_mask_pb2.FieldMask(paths=[f"labels.{archive.BROUGHT}"])
        for name in names:
            # The mask leaves the target as it is; but without one in the message containerd 2.1 crashes.
            record = images_pb2.Image(name=name, labels={archive.BROUGHT: "pulled"}, target=types_pb2.Descriptor())
            request = images_pb2.UpdateImageRequest(image=record, update_mask=mask)
            with contextlib.suppress(NotFoundError), translated():
                await stub.Update(request, timeout=_SHORT, metadata=NAMESPACE)
