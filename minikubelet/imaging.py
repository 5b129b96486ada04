"""Wires what has to do with images: the folder of archives, pulls, clean-up. Made by `daemon.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import grpc.aio
import structlog

from minikubelet.api.batch import CronJob, Job
from minikubelet.api.image_name import ImageNameError, full_name
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.pod_images import images_of
from minikubelet.config import Config
from minikubelet.lifecycle.actions import Event
from minikubelet.node.image_gc import Limits
from minikubelet.node.image_keeper import ImageKeeper
from minikubelet.pods.image_news import ImageNews
from minikubelet.pods.image_uses import ImageUses
from minikubelet.pods.images import Credentials, ImagePuller
from minikubelet.pods.live import LivePods
from minikubelet.pods.recorder import EventRecorder
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.state import RuntimeState
from minikubelet.server.parts import ArchiveProblem, ImageArchivesStatus, ImportedArchive
from minikubelet.sources.archives import ImageArchives

log = structlog.get_logger(__name__)


class Imaging:
    def __init__(
        self,
        config: Config,
        *,
        channel: grpc.aio.Channel,
        state: RuntimeState,
        live: LivePods,
        recorder: EventRecorder,
        credentials: Credentials,
    ) -> None:
        self._config = config
        self._state = state
        self._live = live
        self._recorder = recorder
        self.service = ImageService(channel, owner=str(config.root_dir))
        self.news = ImageNews()
        self.uses = ImageUses()
        self.archives = ImageArchives(
            config.image_archives_path,
            self.service,
            notes=config.root_dir / "image-archives.json",
            connected=state.wait_connected,
            lost=state.lost,
            arrived=self.news.arrived,
            check_frequency=config.file_check_frequency,
        )
        self.puller = ImagePuller(
            self.service,
            credentials=credentials,
            archives=self.archives,
            recorder=recorder,
            clock=time.time,
            pulls_at_once=config.image_pulls_at_once,
        )
        self.keeper = ImageKeeper(
            self.service,
            CRIClient(channel),
            archives=self.archives,
            uses=self.uses,
            wanted=self._wanted,
            sandbox_image=lambda: self._sandbox_image,
            limits=Limits(
                high=config.image_gc_high_threshold_percent,
                low=config.image_gc_low_threshold_percent,
                minimum_age=config.image_minimum_gc_age,
                maximum_age=config.image_maximum_gc_age,
            ),
            short=self._short_of_space,
            clock=time.time,
        )
        self._sandbox_image = ""
        self._named: frozenset[str] = frozenset()
        #: It is known what the manifests want and what the runtime is, so it is known what may be removed.
        self.informed = asyncio.Event()

    def manifests_name(self, objects: Iterable[object]) -> None:
        """These are the objects in force; what they name is kept."""
        self._named = frozenset(name for it in objects for name in _images_of(it))

    def reached(self, sandbox_image: str) -> str:
        """The runtime has been looked at; returns the full name of its sandbox image, "" if it is not known."""
        try:
            self._sandbox_image = full_name(sandbox_image) if sandbox_image else ""
        except ImageNameError:
            log.warning("containerd's sandbox image has a strange name", image=sandbox_image)
        return self._sandbox_image

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.archives.run(), name="image archives")
            tasks.create_task(self._clear(), name="end what was left of imports")
            await self.informed.wait()
            await self._state.wait_connected()
            tasks.create_task(self.keeper.run(), name="remove unused images")

    async def _clear(self) -> None:
        """A daemon that was killed again and again must not fill the disk with halves of images."""
        await self._state.wait_connected()
        try:
            if count := await self.service.clear_imports():
                log.info("removed what was left of imports that were cut off", imports=count)
        except ContainerRuntimeError as error:  # what is left expires by itself
            log.warning("what may be left of imports that were cut off is not removed", error=str(error))

    def status(self) -> ImageArchivesStatus:
        now = self.archives.status()
        return ImageArchivesStatus(
            folder=str(self._config.image_archives_path),
            archives=tuple(ImportedArchive(file=file, images=images) for file, images in now.images.items()),
            errors=tuple(ArchiveProblem(file=file, message=error) for file, error in now.errors.items()),
            being_written=tuple(sorted(now.being_written)),
            importing=tuple(sorted(now.due)),
        )

    def _wanted(self) -> frozenset[str]:
        return self._named.union(*(images_of(pod.spec) for pod in self._live.all()))

    def _short_of_space(self, message: str) -> None:
        """An event of the node: it has no namespace."""
        node = Pod(metadata=ObjectMeta(name=self._config.node, namespace="", uid=self._config.node))
        self._recorder.event(node, Event(type="Warning", reason="FreeDiskSpaceFailed", message=message))


def _images_of(wanted: object) -> frozenset[str]:
    match wanted:
        case Pod():
            return images_of(wanted.spec)
        case Job():
            return images_of(wanted.spec.template.spec)
        case CronJob():
            return images_of(wanted.spec.job_template.spec.template.spec)
    return frozenset()
