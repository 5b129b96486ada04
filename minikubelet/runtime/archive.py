"""Load an image archive into containerd without `ctr` and without a registry (CD 9).

The blobs go to containerd's content store under a lease, then the images are named. `archive_reader` reads the file;
`images.ImageService.import_archive` is the way in.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TypeAlias

import grpc
import grpc.aio
from google.protobuf import field_mask_pb2

from minikubelet.runtime.archive_contents import Blob, NamedImage
from minikubelet.runtime.archive_file import PIECE, ArchiveError
from minikubelet.runtime.archive_reader import ArchiveReader
from minikubelet.runtime.errors import translated
from minikubelet.runtime.leases import ImportLeases, Metadata
from minikubelet.runtime.pb import (
    content_pb2,
    content_pb2_grpc,
    images_pb2,
    images_pb2_grpc,
    types_pb2,
)

__all__ = ["BROUGHT", "ArchiveError", "NamedImage", "import_archive"]

WriteCall: TypeAlias = "grpc.aio.StreamStreamCall[content_pb2.WriteContentRequest, content_pb2.WriteContentResponse]"

#: The label of image records that minikubelet brought: only such images are ever removed unasked (GC-4).
BROUGHT = "minikubelet/brought"
#: Seconds for a call that only touches metadata.
_SHORT = 30


async def import_archive(channel: grpc.aio.Channel, path: Path, *, leases: ImportLeases) -> list[NamedImage]:
    """Load an archive and return the images that it names. Raises ArchiveError or ContainerRuntimeError.

    Nothing is written before all of the file was read and found whole; of what is there already nothing is written
    again. The images are there for CRI a few milliseconds later.
    """
    async with ArchiveReader(path) as reader:
        contents = await reader.contents()
        with translated():
            async with leases.held() as metadata:
                try:
                    await _put(content_pb2_grpc.ContentStub(channel), reader, contents.blobs, metadata)
                except _ChangedError as error:
                    raise reader.error(error) from error
                for image in contents.images:
                    await _name(channel, image, metadata)
    return list(contents.images)


class _ChangedError(ArchiveError):
    """What is read is not what was surveyed."""


async def _put(
    store: content_pb2_grpc.ContentAsyncStub, reader: ArchiveReader, blobs: Sequence[Blob], metadata: Metadata
) -> None:
    """Write the blobs that are missing, and set the labels of the others."""
    there = {blob.digest: await _has(store, blob, metadata) for blob in blobs}
    streamed = {blob.place: blob for blob in blobs if blob.data is None and not there[blob.digest]}
    if streamed:
        async with contextlib.aclosing(reader.pieces(streamed.keys())) as source:
            async for place, piece in source:
                await _write(store, streamed[place], _rest(piece, source), metadata)
    for blob in blobs:  # manifests come after what they refer to
        missing = None if there[blob.digest] else blob.data
        if missing is not None and await _write(store, blob, _at_once(missing), metadata):
            continue
        if blob.labels:
            info = content_pb2.Info(digest=blob.digest, labels=blob.labels)
            mask = field_mask_pb2.FieldMask(paths=[f"labels.{key}" for key in blob.labels])
            update = content_pb2.UpdateRequest(info=info, update_mask=mask)
            await store.Update(update, metadata=metadata, timeout=_SHORT)


async def _has(store: content_pb2_grpc.ContentAsyncStub, blob: Blob, metadata: Metadata) -> bool:
    try:
        await store.Info(content_pb2.InfoRequest(digest=blob.digest), metadata=metadata, timeout=_SHORT)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _rest(piece: bytes, source: AsyncIterator[tuple[int, bytes]]) -> AsyncIterator[bytes]:
    """One member's pieces, of which the first is at hand already."""
    while piece:
        yield piece
        _, piece = await anext(source, (0, b""))


async def _at_once(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


async def _write(
    store: content_pb2_grpc.ContentAsyncStub, blob: Blob, content: AsyncIterator[bytes], metadata: Metadata
) -> bool:
    """Stream one blob in. Takes all of `content`. False: somebody else has brought it meanwhile."""
    # A name of its own for each try: what an earlier one has left must not be gone on with.
    ref = f"minikubelet-{secrets.token_hex(8)}-{blob.digest}"
    request = content_pb2.WriteContentRequest
    call = store.Write(metadata=metadata)
    try:
        await _exchange(call, request(action=content_pb2.STAT, ref=ref, total=blob.size, expected=blob.digest))
        offset = 0
        async for data in content:
            offset = (await _exchange(call, request(action=content_pb2.WRITE, offset=offset, data=data))).offset
        commit = request(
            action=content_pb2.COMMIT, total=blob.size, expected=blob.digest, offset=offset, labels=blob.labels
        )
        await _exchange(call, commit)
        await call.done_writing()
    except grpc.aio.AioRpcError as error:
        call.cancel()
        if error.code() is grpc.StatusCode.ALREADY_EXISTS:
            async for _ in content:
                pass
            return False
        with contextlib.suppress(grpc.aio.AioRpcError):
            await store.Abort(content_pb2.AbortRequest(ref=ref), metadata=metadata, timeout=_SHORT)
        if error.code() is grpc.StatusCode.FAILED_PRECONDITION:  # it was whole a moment ago
            raise _ChangedError("was changed while it was read") from error
        raise
    except BaseException:
        call.cancel()  # the lease takes with it what was written
        raise
    return True


async def _exchange(call: WriteCall, request: content_pb2.WriteContentRequest) -> content_pb2.WriteContentResponse:
    """Send one message and read its answer; a server that ended early raises its status, which a bare write hides."""
    with contextlib.suppress(asyncio.InvalidStateError):
        await call.write(request)
    answer = await call.read()
    if isinstance(answer, content_pb2.WriteContentResponse):
        return answer
    raise grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), details=await call.details()
    )


async def _name(channel: grpc.aio.Channel, image: NamedImage, metadata: Metadata) -> None:
    """Point an image record at its manifest. One label makes CRI take it in at once, the other says who brought it."""
    images = images_pb2_grpc.ImagesStub(channel)
    target = types_pb2.Descriptor(media_type=image.media_type, digest=image.digest, size=image.size)
    labels = {"io.cri-containerd.image": "managed", BROUGHT: "imported"}
    record = images_pb2.Image(name=image.name, target=target, labels=labels)
    try:
        await images.Create(images_pb2.CreateImageRequest(image=record), metadata=metadata, timeout=_SHORT)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        mask = field_mask_pb2.FieldMask(paths=["target", *(f"labels.{key}" for key in labels)])
        update = images_pb2.UpdateImageRequest(image=record, update_mask=mask)
        await images.Update(update, metadata=metadata, timeout=_SHORT)
