"""What the log says of the folder: an error when it appears or changes and when it is mended, not at each look."""

from __future__ import annotations

from collections.abc import Container

import structlog

from minikubelet.sources.desired import Desired


class Reporter:
    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._folders: frozenset[str] = frozenset()
        self._written_for_long: set[str] = set()

    def report(
        self, before: Desired, now: Desired, *, files: Container[str], folders: frozenset[str], on_time: bool
    ) -> None:
        """Log what changed.

        `files`: what is there, the folder itself included. `folders`: sub-folders named like manifests. `on_time`: this
        look was not due to an event.
        """
        for file, errors in now.errors.items():
            known = before.errors.get(file, ())
            keeps = [str(key) for key, it in now.objects.items() if it.file == file]
            for error in errors:
                if error not in known:
                    self._log.error("manifest not used", file=file, error=str(error), still_in_force=keeps or None)
        for file in before.errors.keys() - now.errors.keys():
            self._log.info("manifest mended" if file in files else "no more errors, the file is gone", file=file)
        for file, notes in now.notes.items():
            if notes != before.notes.get(file):
                for note in notes:
                    self._log.warning("manifest used, with a remark", file=file, remark=str(note))
        for folder in sorted(folders - self._folders):
            self._log.warning("sub-folders are not read, although this one is named like a manifest", file=folder)
        self._folders = folders
        if on_time:
            for file in sorted((now.being_written & before.being_written) - self._written_for_long):
                self._log.warning("manifest waits until the program that has it open for writing closes it", file=file)
            self._written_for_long = set(now.being_written & before.being_written)
