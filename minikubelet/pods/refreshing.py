"""Keeps the files of a pod's volumes true to the objects and fields they are made of (VO-13).

One for each worker. It sleeps until something that the files depend on has changed: an object of the folder, or the
pod's own manifest. It also looks once at the beginning, for what changed while the daemon was away.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.services import Services
from minikubelet.pods.volumes import RETRY, VolumeError

log = structlog.get_logger(__name__)


class Refreshing:
    def __init__(self, pod: Callable[[], Pod], services: Services, *, stopping: Callable[[], bool]) -> None:
        """`pod`: as it is now. `stopping`: it is being stopped; then nobody needs to hear what is missing."""
        self._pod = pod
        self._services = services
        self._stopping = stopping
        self._due = asyncio.Event()
        self._due.set()

    def poke(self) -> None:
        """Something has changed that the files may depend on."""
        self._due.set()

    async def run(self) -> None:
        """Until cancelled."""
        delay = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay or None):
                    await self._due.wait()
                    delay = 0.0
            self._due.clear()
            pod = self._pod()
            try:
                await self._services.volumes.refresh(pod)
            except VolumeError as error:
                if not self._stopping():
                    self._services.recorder.event(pod, Event(type="Warning", reason="FailedMount", message=str(error)))
                delay = min(delay * RETRY.factor, RETRY.maximum) if delay else RETRY.initial
            else:
                delay = 0.0
