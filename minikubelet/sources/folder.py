"""The watched folder: a new `Desired` at each change. The daemon talks to `FolderSource`.

`folder_watch` says when a file's content counts; `desired` folds all files' content into what is wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from minikubelet.api.decode import DecodedFile, ManifestError
from minikubelet.sources import desired as fold
from minikubelet.sources.desired import Desired, Outcome, Remembered
from minikubelet.sources.folder_watch import FolderWatch
from minikubelet.sources.listing import Decode, Look, is_manifest, read_manifest
from minikubelet.sources.reading import UnusableError
from minikubelet.sources.report import Reporter
from minikubelet.sources.trouble import Trouble

OnChange = Callable[[Desired], None]


class FolderSource:
    """Watches `path` and tells what it asks for.

    `decode` turns a file into objects and errors; it runs in a thread. `remembered`: the pods that were in force when
    the daemon ended. `check_frequency` in seconds (`fileCheckFrequency`).
    """

    def __init__(
        self, path: Path, decode: Decode, *, remembered: Iterable[Remembered] = (), check_frequency: float = 20.0
    ) -> None:
        self._path = Path(path).absolute()
        self._reporter = Reporter(structlog.get_logger(__name__).bind(folder=str(self._path)))
        self._state = fold.initial(remembered)
        self._desired: Desired | None = None
        self._on_change: OnChange = lambda _: None
        self._watch: FolderWatch[DecodedFile] = FolderWatch(
            self._path,
            takes=is_manifest,
            read=functools.partial(read_manifest, decode=decode, leaseless_patience=check_frequency),
            follower=self,
            expected=self._state.files,
            check_frequency=check_frequency,
        )

    async def run(self, on_change: OnChange) -> None:
        """Until cancelled.

        `on_change` is called first after the first full read, then at each change, never twice for one.
        """
        self._on_change = on_change
        await self._watch.run()

    def absorb(self, changes: Mapping[str, DecodedFile | UnusableError | Trouble | None]) -> None:
        """For `folder_watch`."""
        outcomes: dict[str, Outcome] = {
            name: _whole_file_error(name, str(it)) if isinstance(it, UnusableError) else it
            for name, it in changes.items()
        }
        self._state = fold.after(self._state, outcomes)

    def settled(self, look: Look[DecodedFile], *, on_time: bool) -> None:
        """For `folder_watch`."""
        trouble = look.trouble and _why(look.trouble)
        folder_errors = {str(self._path): (_whole_file_error(str(self._path), trouble),)} if trouble else {}
        now = fold.desired(self._state, folder_errors=folder_errors)
        before, self._desired = self._desired, now
        there = {*self._state.files, str(self._path)}
        self._reporter.report(before or Desired(), now, files=there, folders=look.folders, on_time=on_time)
        if now != before:
            self._on_change(now)


def _whole_file_error(file: str, message: str) -> ManifestError:
    return ManifestError(file=file, line=0, document=1, path="", message=message)


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "the manifests folder is not there; what ran goes on. Create it, or set staticPodPath to another"
    if isinstance(error, NotADirectoryError):
        return "the manifests folder is not a folder; what ran goes on. Set staticPodPath to a folder"
    return f"the manifests folder cannot be read: {error.strerror}; what ran goes on"
