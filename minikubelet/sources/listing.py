"""One look at a folder: list it and read what changed. Blocking; `sources.folder_watch` runs it in a thread.

It knows nothing of events or of what was desired before: given what is known of each file it says what has become of
it, and which directories are to be watched so that the next change is heard of.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from minikubelet.api.decode import DecodedFile
from minikubelet.sources.places import chain
from minikubelet.sources.reading import (
    BeingWrittenError,
    Signature,
    UnusableError,
    read_quietly,
    signature_of,
)

T = TypeVar("T")

SUFFIXES = (".yaml", ".yml", ".json")
#: Without leases and without events of it, a file is only read when it has not changed for this many seconds.
SETTLED = 0.25


class Decode(Protocol):
    def __call__(self, name: str, data: bytes) -> DecodedFile: ...


class Hints(NamedTuple):
    """What events said of a file since it was last looked at."""

    #: It was closed after writing, or moved here: what it holds is whole, and must be read even if it looks the same.
    whole: bool = False
    #: It was written to and has not been closed.
    writing: bool = False


class Read(NamedTuple, Generic[T]):
    signature: Signature
    content: T


class ReadFile(Protocol[T]):
    def __call__(self, path: Path, name: str, hint: Hints) -> Read[T]:
        """Raises BeingWrittenError, UnusableError, FileNotFoundError."""


class Place(NamedTuple):
    """A directory to watch, as it is now: another directory under the same path is another place."""

    path: Path
    device: int
    inode: int


class Look(NamedTuple, Generic[T]):
    #: By name, for each file that is there: unchanged (None), its new content, why it cannot be used, or that it is
    #: being written.
    findings: dict[str, Read[T] | UnusableError | BeingWrittenError | None]
    #: Files that are there and have to wait for the next look.
    unread: frozenset[str]
    #: Sub-folders that are named like files.
    folders: frozenset[str]
    #: Why the folder cannot be listed.
    trouble: OSError | None
    #: For each place: its entries that matter, and the files that each entry's content belongs to.
    places: dict[Place, dict[str, frozenset[str]]]
    #: The place of the folder itself, where every file's name matters.
    home: Place | None


def shown(name: str) -> str:
    """A name from the file system as it is shown and known everywhere else: text, also when it is not UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")


def is_manifest(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def look(
    folder: Path,
    *,
    takes: Callable[[str], bool],
    read: ReadFile[T],
    known: Mapping[str, Signature],
    hints: Mapping[str, Hints],
    budget: float,
) -> Look[T]:
    """List `folder` (absolute) and read each file whose signature is not in `known` or that `hints` says to be new.

    `budget`: seconds after which no further file is begun, so that of many new files the first need not wait for the
    last. Raises what else `read` raises.
    """
    interest: dict[Path, dict[str, set[str]]] = {}

    def follow(path: Path, files: set[str]) -> Path | None:
        steps, target = chain(path)
        for step in steps:
            interest.setdefault(step.directory, {}).setdefault(shown(step.name), set()).update(files)
        return target

    findings: dict[str, Read[T] | UnusableError | BeingWrittenError | None] = {}
    unread: set[str] = set()
    folders: set[str] = set()
    last_begin = time.monotonic() + budget
    begun = False
    trouble: OSError | None = None
    home = follow(folder, set())
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        trouble = error
        entries = []
    for entry in entries:
        if not takes(entry.name):
            continue
        path, name = folder / entry.name, shown(entry.name)
        if entry.is_symlink():
            follow(path, {name})
        try:
            found = path.stat()
            if stat.S_ISDIR(found.st_mode):
                folders.add(name)
                continue
            hint = hints.get(name, Hints())
            if known.get(name) == signature_of(found) and not hint.whole:
                findings[name] = None
            elif begun and time.monotonic() > last_begin:
                unread.add(name)
            else:
                begun = True
                findings[name] = read(path, name, hint)
        except FileNotFoundError:
            if entry.is_symlink():
                findings[name] = UnusableError(f"is a symbolic link to {path.readlink()}, which is not there")
        except (UnusableError, BeingWrittenError) as error:
            findings[name] = error
        except OSError as error:
            findings[name] = UnusableError(f"cannot be read: {error.strerror}")
    places: dict[Place, dict[str, frozenset[str]]] = {}
    for directory, names in interest.items():
        if (place := _place(directory)) is not None:
            places[place] = {name: frozenset(files) for name, files in names.items()}
    home_place = _place(home) if home is not None and trouble is None else None
    return Look(findings, frozenset(unread), frozenset(folders), trouble, places, home_place)


def read_manifest(
    path: Path, name: str, hint: Hints, *, decode: Decode, leaseless_patience: float
) -> Read[DecodedFile]:
    """The objects in a file. `leaseless_patience`: as for `check_quiet`."""
    content = read_quietly(path)
    check_quiet(content.signature, hint, leased=content.leased, leaseless_patience=leaseless_patience)
    return Read(content.signature, decode(name, content.data))


def check_quiet(signature: Signature, hint: Hints, *, leased: bool, leaseless_patience: float) -> None:
    """Raise BeingWrittenError where only a file's age can tell whether it is whole, and it is too young.

    `leaseless_patience`: where there are no leases, seconds after which a file that was written to and never closed
    counts all the same.
    """
    if not leased and not hint.whole:
        quiet_for = time.time() - signature.modified_ns / 1e9
        patience = leaseless_patience if hint.writing else SETTLED
        if 0 <= quiet_for < patience:  # a time in the future says nothing
            raise BeingWrittenError(settles_in=patience - quiet_for)


def _place(directory: Path) -> Place | None:
    try:
        found = directory.stat()
    except OSError:
        return None
    return Place(directory, found.st_dev, found.st_ino)
