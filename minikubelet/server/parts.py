"""What the server needs from the rest of the daemon: a handful of callables, so that it knows no other room.

`daemon` fills `Parts`. The structs are what `GET /status` answers; `minikubelet status` reads the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from minikubelet.api.base import kubernetes_name

#: Says what is wrong, for people; None when all is well. Must not block.
Check = Callable[[], str | None]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename=kubernetes_name):
    """Not strict: a client may be older than its server."""


class RuntimeStatus(_Part, frozen=True, kw_only=True):
    endpoint: str
    connected: bool = False
    #: As the runtime calls itself; empty before it was reached for the first time.
    name: str = ""
    version: str = ""
    api_version: str = ""
    #: Why it is not connected.
    reason: str = ""


class ManifestProblem(_Part, frozen=True, kw_only=True):
    """An error or a remark; `file` as in the folder, `document` counts from 1, `line` too, 0: the whole file."""

    file: str
    line: int
    document: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: " + (f"{self.path}: " if self.path else "") + self.message


class ManifestsStatus(_Part, frozen=True, kw_only=True):
    folder: str
    errors: tuple[ManifestProblem, ...] = ()
    notes: tuple[ManifestProblem, ...] = ()
    #: Files that wait until whoever writes them closes them.
    being_written: tuple[str, ...] = ()
    #: How many objects are in force, by kind.
    objects: dict[str, int] = {}


class ArchiveProblem(_Part, frozen=True, kw_only=True):
    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


class ImportedArchive(_Part, frozen=True, kw_only=True):
    file: str
    #: Full names; empty until it was imported for the first time.
    images: tuple[str, ...] = ()


class ImageArchivesStatus(_Part, frozen=True, kw_only=True):
    folder: str = ""
    archives: tuple[ImportedArchive, ...] = ()
    errors: tuple[ArchiveProblem, ...] = ()
    #: Files that wait until whoever writes them closes them.
    being_written: tuple[str, ...] = ()
    #: Files that are being imported, or wait for that.
    importing: tuple[str, ...] = ()


class Status(_Part, frozen=True, kw_only=True):
    version: str
    node: str
    #: RFC 3339, UTC.
    started_at: str
    runtime: RuntimeStatus
    manifests: ManifestsStatus
    #: Where the logs of the pods are; empty: an older daemon, which does not say it.
    pod_logs_dir: str = ""
    image_archives: ImageArchivesStatus = ImageArchivesStatus()
    #: How many pods there are, by phase.
    pods: dict[str, int] = {}
    #: What start-up found wrong or worth knowing about the host, for people.
    findings: tuple[str, ...] = ()
    #: Why the daemon is not ready, by check. Empty: it is.
    not_ready: dict[str, str] = {}


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """`pods` and `events` give each object as JSON, encoded before: answering is joining."""

    pods: Callable[[], Iterable[bytes]]
    #: In order of the last time that each happened.
    events: Callable[[], Awaitable[Iterable[bytes]]]
    status: Callable[[], Status]
    #: By name. A failing check of `livez` says that a restart of the daemon would help, one of `readyz` that it
    #: cannot do its work at the moment.
    livez: Mapping[str, Check] = {}
    readyz: Mapping[str, Check] = {}
