"""Images, as the rest of the daemon wants them: is it there, pull it, load it from a file.

`pods/` asks before each container start, `node/` for clean-up, the command line for imports.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio

from minikubelet.runtime import archive
from minikubelet.runtime.errors import translated
from minikubelet.runtime.pb import cri_pb2, cri_pb2_grpc

#: Seconds. A pull has no deadline: it takes as long as the image is big.
_SHORT = 30


class ImageService:
    """CRI's image service, and imports by containerd's own services. Errors: runtime/errors.py."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
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
            return (await self._stub.PullImage(request)).image_ref

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

    async def import_archive(self, path: Path) -> list[str]:
        """Load an OCI-layout or docker archive; returns the images' names once CRI sees them.

        Raises archive.ArchiveError if the file is at fault.
        """
        loaded = await archive.import_archive(self._channel, path)
        # CRI follows containerd's image events; it is a millisecond or two behind (CD 9).
        for name in loaded:
            for _ in range(100):
                if await self.status(name) is not None:
                    break
                await asyncio.sleep(0.01)
        return loaded
