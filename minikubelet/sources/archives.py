"""The folder of image archives: what lies in it is in containerd, without a registry and without a network.

`daemon` runs one `ImageArchives`. An archive is imported when it appears or changes, once it is whole
(`sources.folder_watch`); at the daemon's start only if it is not what was imported last, or if containerd has lost an
image of it. `pods.images` asks it to `bring` an image before it takes one for missing; clean-up asks for the `names`
that are not to be removed.

Of several archives with an image of one name the one imported last counts; when its file goes, the next does. An
import ends when its file goes or changes. Nobody waits for long for an archive that takes long: who needs an image of
it is told when it has arrived.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any

import structlog

from minikubelet.api.image_name import ImageNameError, full_name
from minikubelet.runtime.archive import ArchiveError
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.sources.archive_files import (
    FOLDER,
    Settled,
    is_archive,
    settled_archive,
    signature_now,
    why_unreadable,
)
from minikubelet.sources.archive_imports import Archive, ArchivesStatus, GivenUpError, Images, Importing
from minikubelet.sources.archive_notes import ArchiveNotes
from minikubelet.sources.folder_watch import FolderWatch
from minikubelet.sources.listing import Look, shown
from minikubelet.sources.reading import Signature, UnusableError
from minikubelet.sources.trouble import Trouble

#: Seconds until what containerd refused is tried again, doubling.
_RETRY_FIRST, _RETRY_MAX = 10.0, 300.0
#: Seconds after which an archive that is not imported yet is not waited for any more.
_PATIENCE = 60.0


class ImageArchives:
    def __init__(
        self,
        path: Path,
        images: Images,
        *,
        notes: Path,
        connected: Callable[[], Coroutine[Any, Any, None]],
        lost: Callable[[], Coroutine[Any, Any, None]],
        arrived: Callable[[Collection[str]], None],
        check_frequency: float = 20.0,
    ) -> None:
        """`notes`: a file of our own. `arrived` is told of images' names.

        `connected` returns when containerd is there, `lost` when it is there again after a call has failed.
        """
        self._path = Path(path).absolute()
        self._images = images
        self._notes = ArchiveNotes(notes)
        self._connected = connected
        self._lost = lost
        self._arrived = arrived
        self._log = structlog.get_logger(__name__).bind(folder=str(self._path))
        self._files: dict[str, Archive] = {}
        #: What is to be imported, or looked at again, and since when.
        self._due: dict[str, float] = {}
        self._importing = Importing(images)
        self._folder_error = ""
        self._folders: frozenset[str] = frozenset()
        self._looked = False
        self._wake = asyncio.Event()
        self._progress = asyncio.Condition()
        self._check_frequency = check_frequency

    async def run(self) -> None:
        """Until cancelled."""
        await self._notes.load()
        watch: FolderWatch[Settled] = FolderWatch(
            self._path,
            takes=is_archive,
            read=functools.partial(settled_archive, leaseless_patience=self._check_frequency),
            follower=self,
            expected=self._notes.files(),
            check_frequency=self._check_frequency,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(watch.run(), name="watch the image archives")
            tasks.create_task(self._work(), name="import image archives")

    # ---- for the rest of the daemon --------------------------------------------------
    def names(self) -> frozenset[str]:
        """The images, by full name, of all archives that are there, or in a folder that is away as a whole."""
        return self._notes.images()

    def may_bring(self, image: str) -> bool:
        """Whether an image that is not there may come from an archive, as far as is known now. Any name or none."""
        return not self._idle() or self._source(image) is not None

    async def bring(self, image: str) -> bool:
        """Return when the image has been brought by an archive, or when none is left that may do so before long.

        `image` as a manifest names it. False: nothing has happened.
        """
        if not self.may_bring(image):
            return False
        source = self._source(image)
        if source is not None:
            self._want(source)  # it was removed behind our back
            self._wake.set()
        began = max(self._due.values(), default=asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(began + _PATIENCE), self._progress:
                await self._progress.wait_for(lambda: self._idle() or self._source(image) not in {None, *self._due})
        except TimeoutError:
            return False
        return True

    def _source(self, image: str) -> str | None:
        """The file that the image comes from, if it is known and fit for that."""
        try:
            holder = self._holder(full_name(image))
        except ImageNameError:
            return None
        return None if holder is None or self._files[holder].error else holder

    async def idle(self) -> None:
        """Return when all that is in the folder has been dealt with."""
        async with self._progress:
            await self._progress.wait_for(self._idle)

    def status(self) -> ArchivesStatus:
        errors = {name: it.error for name, it in sorted(self._files.items()) if it.error}
        errors |= dict.fromkeys(sorted(self._folders), FOLDER)
        if self._folder_error:
            errors[str(self._path)] = self._folder_error
        return ArchivesStatus(
            images={name: tuple(it.note.images) if it.note else () for name, it in sorted(self._files.items())},
            errors=errors,
            being_written=frozenset(name for name, it in self._files.items() if it.being_written),
            due=frozenset(self._due),
        )

    # ---- for folder_watch --------------------------------------------------------------
    def absorb(self, changes: Mapping[str, Settled | UnusableError | Trouble | None]) -> None:
        for name, outcome in changes.items():
            if outcome is Trouble.GONE:
                self._forget(name)
                continue
            if (file := self._files.get(name)) is None:
                file = self._files[name] = Archive(path=self._path / name, note=self._notes.of(name))
            file.being_written = outcome is Trouble.BEING_WRITTEN
            match outcome:
                case Settled(path, signature) if signature != file.signature or file.error:
                    self._importing.give_up(file)
                    file.path, file.signature, file.retry_at, file.pause = path, signature, None, 0.0
                    self._due[name] = asyncio.get_running_loop().time()
                case UnusableError():
                    self._importing.give_up(file)
                    file.signature = None
                    self._due.pop(name, None)
                    self._tell(name, file, str(outcome))

    def _want(self, name: str) -> None:
        self._due.setdefault(name, asyncio.get_running_loop().time())

    def settled(self, look: Look[Settled], *, on_time: bool) -> None:  # noqa: ARG002  the follower's signature
        # One that was never there is no trouble.
        fine = look.trouble is None or (isinstance(look.trouble, FileNotFoundError) and not self._notes.files())
        trouble = "" if look.trouble is None or fine else why_unreadable(look.trouble)
        if trouble and trouble != self._folder_error:
            self._log.error("image archives cannot be read", error=trouble)
        self._folder_error = trouble
        for folder in sorted(look.folders - self._folders):
            self._log.error("image archive not used", file=folder, error=FOLDER)
        self._folders = look.folders
        self._looked = True
        self._wake.set()

    def _forget(self, name: str) -> None:
        file = self._files.pop(name, None)
        self._due.pop(name, None)
        self._notes.forget(name)
        if file is None:
            return
        self._importing.give_up(file)
        if file.error:
            self._log.info("no more errors, the image archive is gone", file=name)
        if file.note:
            self._give_back(file.note.images)

    def _give_back(self, images: Collection[str]) -> None:
        """An archive with these images is gone: where others have them, too, theirs count again."""
        for name, file in self._files.items():
            if file.note and not file.note.images.keys().isdisjoint(images):
                self._want(name)

    # ---- importing --------------------------------------------------------------------
    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            for name, file in self._files.items():
                if file.retry_at is not None and file.retry_at <= loop.time():
                    file.retry_at = None
                    self._want(name)
            while self._due:
                await self._deal_with(min(self._due, key=self._age))
            await self._notes.save()
            async with self._progress:
                self._progress.notify_all()
            moments = [it.retry_at for it in self._files.values() if it.retry_at is not None]
            try:
                async with asyncio.timeout_at(min(moments, default=None)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _age(self, name: str) -> tuple[int, int, str]:
        """Those that were imported come first, in that order; then the oldest."""
        file = self._files[name]
        order = file.note.order if file.note else self._notes.next_order
        return order, file.signature.modified_ns if file.signature else 0, name

    async def _deal_with(self, name: str) -> None:
        file = self._files[name]
        signature = file.signature
        try:
            if signature is not None and not await self._is_there(name):
                await self._import(name, file, signature)
                await self._notes.save()
            if file.signature == signature:
                self._tell(name, file, "")
        except GivenUpError:
            self._log.info("the import was given up: the image archive is gone, or another now", file=name)
            self._give_back(self._notes.images())  # some names may have been given already
            return
        except RuntimeUnavailableError:
            await self._lost()
            return
        except ContainerRuntimeError as error:
            file.pause = min(file.pause * 2, _RETRY_MAX) or _RETRY_FIRST
            file.retry_at = asyncio.get_running_loop().time() + file.pause
            self._tell(name, file, f"containerd refuses it: {error}; it is tried again")
        except ArchiveError as error:
            # What changed meanwhile is told of by an event, and begun anew.
            if await asyncio.to_thread(signature_now, file.path) == signature:
                self._tell(name, file, str(error).removeprefix(f"{shown(str(file.path))}: "))
        except Exception:  # noqa: BLE001  one strange file must not keep the others from their pods
            self._log.exception("an image archive could not be dealt with", file=name)
            self._tell(name, file, "an internal error; the daemon's log has the details")
        if self._files.get(name) is file and file.signature == signature:
            self._due.pop(name, None)
        async with self._progress:
            self._progress.notify_all()

    async def _is_there(self, name: str) -> bool:
        """Whether this very file was imported, and containerd still has all that it holds."""
        file = self._files[name]
        await self._connected()
        if file.note is None or file.signature is None or not file.note.is_of(file.signature):
            return False
        records = await self._images.records()
        return all(
            image in records and records[image].digest == digest
            for image, digest in file.note.images.items()
            if self._holder(image) == name
        )

    async def _import(self, name: str, file: Archive, signature: Signature) -> None:
        self._log.info("importing an image archive", file=name, size=signature.size)
        loaded = await self._importing.run(file)
        images = {image.name: image.digest for image in loaded}
        if self._files.get(name) is file:
            file.note = self._notes.put(name, signature, images)
        else:  # it was removed meanwhile
            self._give_back(images)
        self._log.info("images imported", file=name, images=list(images))
        self._arrived(images.keys())

    def _holder(self, image: str) -> str | None:
        """Of the archives with an image of that name the one imported last."""
        holders = [(it.note.order, name) for name, it in self._files.items() if it.note and image in it.note.images]
        return max(holders, default=(0, None))[1]

    def _idle(self) -> bool:
        return self._looked and not self._due

    def _tell(self, name: str, file: Archive, error: str) -> None:
        if self._files.get(name) is not file:
            return
        if error and error != file.error:
            self._log.error("image archive not used", file=name, error=error)
        if file.error and not error:
            self._log.info("image archive mended", file=name)
        file.error = error
