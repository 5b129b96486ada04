"""What an import writes is kept from containerd's garbage collection by a lease until its images refer to it (CD 9).

A lease says whose it is: a daemon that was killed in the middle of an import ends its own at its next start, and half
an image goes with it. `archive` holds them, `images` ends what was left.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import grpc
import grpc.aio

from minikubelet.runtime.channel import NAMESPACE
from minikubelet.runtime.pb import leases_pb2, leases_pb2_grpc

Metadata: TypeAlias = tuple[tuple[str, str], ...]

#: Labels of ours: of which minikubelet a lease is, and of which run of it.
_OWNER, _RUN = "minikubelet/owner", "minikubelet/run"
#: Seconds; garbage collection, of which a call may wait the end, takes longer.
_SHORT, _LONG = 30, 300


class ImportLeases:
    """Raises AioRpcError."""

    def __init__(self, channel: grpc.aio.Channel, *, owner: str) -> None:
        """`owner`: as for `images.ImageService`; empty: nobody comes back for what is left."""
        self._leases = leases_pb2_grpc.LeasesStub(channel)
        self._owner = owner
        self._run = secrets.token_hex(8)
        #: Leases that could not be ended when they should have been.
        self._unended: set[str] = set()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Metadata]:
        """Yields the metadata of calls whose content is to be kept."""
        lease = f"minikubelet-import-{secrets.token_hex(8)}"
        expire = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        labels = {"containerd.io/gc.expire": expire.strftime("%Y-%m-%dT%H:%M:%SZ"), _RUN: self._run}
        if self._owner:
            labels[_OWNER] = self._owner
        for left in tuple(self._unended):
            await self._end(left)
        try:
            request = leases_pb2.CreateRequest(id=lease, labels=labels)
            await self._leases.Create(request, metadata=NAMESPACE, timeout=_SHORT)
            yield (*NAMESPACE, ("containerd-lease", lease))
        finally:
            await self._end(lease)

    async def _end(self, lease: str) -> None:
        """If this fails it is tried again before the next one, or at the next start; at last it expires."""
        self._unended.add(lease)
        request = leases_pb2.DeleteRequest(id=lease)
        try:
            await self._leases.Delete(request, metadata=NAMESPACE, timeout=_SHORT)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                return
        self._unended.discard(lease)

    async def end_left(self) -> int:
        """End what earlier runs of the owner have left, and remove what only they kept. Returns how many."""
        listed = await self._leases.List(leases_pb2.ListRequest(), metadata=NAMESPACE, timeout=_SHORT)
        left = [
            it.id
            for it in listed.leases
            if self._owner and it.labels.get(_OWNER) == self._owner and it.labels.get(_RUN) != self._run
        ]
        for i, lease in enumerate(left, 1):
            request = leases_pb2.DeleteRequest(id=lease, sync=i == len(left))
            await self._leases.Delete(request, metadata=NAMESPACE, timeout=_LONG)
        return len(left)
