"""Load an image archive into containerd without `ctr` and without a registry (CD 9).

The blobs go to containerd's content store under a lease, then the images are named. `archive_contents` reads the file;
`images.ImageService.import_archive` is the way in.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gzip
import secrets
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TypeAlias

import grpc
import grpc.aio
from google.protobuf import field_mask_pb2

from minikubelet.runtime.archive_contents import ArchiveError, Blob, NamedImage, read_contents
from minikubelet.runtime.channel import NAMESPACE
from minikubelet.runtime.errors import translated
from minikubelet.runtime.pb import (
    content_pb2,
    content_pb2_grpc,
    images_pb2,
    images_pb2_grpc,
    leases_pb2,
    leases_pb2_grpc,
    types_pb2,
)

__all__ = ["ArchiveError", "import_archive"]

Metadata: TypeAlias = tuple[tuple[str, str], ...]
WriteCall: TypeAlias = "grpc.aio.StreamStreamCall[content_pb2.WriteContentRequest, content_pb2.WriteContentResponse]"

#: Bytes per message; must stay well below the daemon's limit of 16 MiB.
_CHUNK = 1 << 20
#: Seconds for a call that only touches metadata.
_SHORT = 30


async def import_archive(channel: grpc.aio.Channel, path: Path) -> list[str]:
    """Load an archive and return the names of its images. Raises ArchiveError or ContainerRuntimeError.

    Loading the same archive again is harmless. The images are there for CRI a few milliseconds later.
    """
    with contextlib.ExitStack() as opened:
        try:
            tar = await asyncio.to_thread(_open, path, opened)
            contents = await asyncio.to_thread(read_contents, tar)
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise ArchiveError(f"{path}: cannot be read as a tar archive: {error}") from error
        except (KeyError, ValueError, TypeError) as error:
            raise ArchiveError(f"{path}: damaged: {error!r}") from error
        except ArchiveError as error:
            raise ArchiveError(f"{path}: {error}") from error
        with translated():
            async with _lease(channel) as metadata:
                store = content_pb2_grpc.ContentStub(channel)
                for blob in contents.blobs:
                    await _put(store, tar, blob, metadata)
                for image in contents.images:
                    await _name(channel, image, metadata)
    return [image.name for image in contents.images]


def _open(path: Path, opened: contextlib.ExitStack) -> tarfile.TarFile:
    """Open the archive; a gzipped one is unpacked first, because its members are read out of order."""
    source = opened.enter_context(path.open("rb"))
    packed = source.read(2) == b"\x1f\x8b"
    source.seek(0)
    plain: IO[bytes] = source
    if packed:
        plain = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
        with gzip.open(source) as unpacked:
            shutil.copyfileobj(unpacked, plain, _CHUNK)
        plain.seek(0)
    return opened.enter_context(tarfile.open(fileobj=plain, mode="r:"))


@asynccontextmanager
async def _lease(channel: grpc.aio.Channel) -> AsyncIterator[Metadata]:
    """Keep what is written from garbage collection until the images refer to it. Yields the calls' metadata."""
    leases = leases_pb2_grpc.LeasesStub(channel)
    lease = f"minikubelet-import-{secrets.token_hex(8)}"
    expire = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    labels = {"containerd.io/gc.expire": expire.strftime("%Y-%m-%dT%H:%M:%SZ")}
    await leases.Create(leases_pb2.CreateRequest(id=lease, labels=labels), metadata=NAMESPACE, timeout=_SHORT)
    try:
        yield (*NAMESPACE, ("containerd-lease", lease))
    finally:
        # If this fails the lease expires by itself.
        with contextlib.suppress(grpc.aio.AioRpcError):
            await leases.Delete(leases_pb2.DeleteRequest(id=lease), metadata=NAMESPACE, timeout=_SHORT)


async def _put(store: content_pb2_grpc.ContentAsyncStub, tar: tarfile.TarFile, blob: Blob, metadata: Metadata) -> None:
    """Write one blob, or only its labels if it is there already."""
    info = content_pb2.Info(digest=blob.digest, labels=blob.labels)
    try:
        await store.Info(content_pb2.InfoRequest(digest=blob.digest), metadata=metadata, timeout=_SHORT)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        if await _write(store, tar, blob, metadata):
            return
    if blob.labels:
        mask = field_mask_pb2.FieldMask(paths=[f"labels.{key}" for key in blob.labels])
        await store.Update(content_pb2.UpdateRequest(info=info, update_mask=mask), metadata=metadata, timeout=_SHORT)


async def _write(
    store: content_pb2_grpc.ContentAsyncStub, tar: tarfile.TarFile, blob: Blob, metadata: Metadata
) -> bool:
    """Stream one blob in. False: it appeared meanwhile. A wrong one raises ArchiveError and leaves nothing behind."""
    ref = f"minikubelet-{blob.digest}"
    request = content_pb2.WriteContentRequest
    call = store.Write(metadata=metadata)
    try:
        answer = await _exchange(call, request(action=content_pb2.STAT, ref=ref, total=blob.size, expected=blob.digest))
        offset = answer.offset
        while offset < blob.size:
            data = await asyncio.to_thread(_read, tar, blob, offset)
            offset = (await _exchange(call, request(action=content_pb2.WRITE, offset=offset, data=data))).offset
        commit = request(
            action=content_pb2.COMMIT, total=blob.size, expected=blob.digest, offset=offset, labels=blob.labels
        )
        await _exchange(call, commit)
        await call.done_writing()
    except (ArchiveError, grpc.aio.AioRpcError) as error:
        call.cancel()
        if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.ALREADY_EXISTS:
            return False
        # What was written so far would otherwise stay, and spoil the next try.
        with contextlib.suppress(grpc.aio.AioRpcError):
            await store.Abort(content_pb2.AbortRequest(ref=ref), metadata=metadata, timeout=_SHORT)
        if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.FAILED_PRECONDITION:
            raise ArchiveError(f"blob {blob.digest} is damaged: {error.details()}") from error
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


def _read(tar: tarfile.TarFile, blob: Blob, offset: int) -> bytes:
    """The next piece of a blob. Raises ArchiveError if there is none although its size says so."""
    if blob.data is not None:
        return blob.data[offset : offset + _CHUNK]
    source = tar.extractfile(blob.member)
    if source is None:
        raise ArchiveError(f"{blob.member} is not a file")
    source.seek(offset)
    if data := source.read(_CHUNK):
        return data
    raise ArchiveError(f"blob {blob.digest} is {offset} bytes long, not {blob.size}")


async def _name(channel: grpc.aio.Channel, image: NamedImage, metadata: Metadata) -> None:
    """Point an image record at its manifest. The label makes CRI take it in at once."""
    images = images_pb2_grpc.ImagesStub(channel)
    target = types_pb2.Descriptor(media_type=image.media_type, digest=image.digest, size=image.size)
    record = images_pb2.Image(name=image.name, target=target, labels={"io.cri-containerd.image": "managed"})
    try:
        await images.Create(images_pb2.CreateImageRequest(image=record), metadata=metadata, timeout=_SHORT)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.ALREADY_EXISTS:
            raise
        mask = field_mask_pb2.FieldMask(paths=["target", "labels"])
        update = images_pb2.UpdateImageRequest(image=record, update_mask=mask)
        await images.Update(update, metadata=metadata, timeout=_SHORT)
