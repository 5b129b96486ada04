"""Writes a set of files so that readers see all of the old or all of the new (VO-10).

The files lie in a directory of their own, `..data` is a link to it, and each name a reader uses is a link through
`..data`: one rename switches them all. It may be cut short at any point: what is there stays whole, and the next write
tidies up. Only this module writes below the directory, one write at a time; containers have it mounted read-only.
"""

from __future__ import annotations

import os
import posixpath
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from minikubelet.pods.volumes.plugin import PluginError
from minikubelet.pods.volumes.removal import remove_tree

DATA = "..data"
_FRESH_LINK = "..data_tmp"
_STAMPED = re.compile(r"\.\.[0-9]{4}_.*")
_LONGEST_ELEMENT, _LONGEST_PATH = 255, 4096


class File(msgspec.Struct, frozen=True):
    content: bytes
    #: Permission bits.
    mode: int

    def __repr__(self) -> str:
        return f"File({len(self.content)} bytes, {self.mode:04o})"


#: By path relative to the volume.
Payload = Mapping[str, File]


def current(directory: Path) -> Path | None:
    """Where the files of the last write are; None if there never was one."""
    try:
        name = os.readlink(directory / DATA)  # noqa: PTH115 - as it is written
    except OSError:
        return None
    path = directory / name
    return path if _STAMPED.fullmatch(name) and path.is_dir() else None


def write(directory: Path, payload: Payload, *, own: Callable[[Path], None]) -> bool:
    """Make `payload` what readers of the (existing) directory see; whether anything had to be written.

    `own` is called with the directory before the switch, to give what is new in it to its owner. Modes alone are no
    difference, as in the reference. Raises PluginError for a path that cannot be, and OSError.
    """
    files = {_checked(path): file for path, file in payload.items()}
    now = current(directory)
    changed = now is None or not _same(now, files)
    if changed:
        now = _written(directory, files)
        own(directory)
        _switch(directory, now.name)
    _tidy(directory, files, keep=now.name if now else "")
    return changed


def _checked(path: str) -> str:
    if not path:
        raise PluginError("invalid path: must not be empty")
    if path.startswith("/"):
        raise PluginError(f"invalid path: must be relative path: {path}")
    if len(path.encode()) > _LONGEST_PATH:
        raise PluginError(f"invalid path: must be less than or equal to {_LONGEST_PATH} characters")
    for element in path.split("/"):
        if element == "..":
            raise PluginError(f"invalid path: must not contain '..': {path}")
        if len(element.encode()) > _LONGEST_ELEMENT:
            raise PluginError(f"invalid path: filename must be less than or equal to {_LONGEST_ELEMENT} characters")
    if path.startswith(".."):
        raise PluginError(f"invalid path: must not start with '..': {path}")
    return posixpath.normpath(path)


def _same(directory: Path, files: Payload) -> bool:
    found = {os.path.relpath(path, directory): path for path in _files_below(directory)}
    return found.keys() == files.keys() and all(
        path.read_bytes() == files[name].content for name, path in found.items()
    )


def _files_below(directory: Path) -> Iterator[Path]:
    waiting = [directory]
    while waiting:
        for entry in waiting.pop().iterdir():
            if entry.is_dir():
                waiting.append(entry)
            else:
                yield entry


def _written(directory: Path, files: Payload) -> Path:
    """A new directory with the files in it, not yet seen by anybody."""
    stamp = f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S}.{secrets.randbelow(10**10):010d}"
    fresh = directory / stamp
    fresh.mkdir()
    fresh.chmod(0o755)
    for name, file in files.items():
        path = fresh / name
        try:
            path.parent.mkdir(mode=0o777, parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except (NotADirectoryError, FileExistsError) as problem:
            raise PluginError(f"{name} cannot be a file and a directory at once") from problem
        try:
            view = memoryview(file.content)
            while view:
                view = view[os.write(fd, view) :]
            os.fchmod(fd, file.mode)
        finally:
            os.close(fd)
    return fresh


def _switch(directory: Path, name: str) -> None:
    link = directory / _FRESH_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    link.rename(directory / DATA)


def _tidy(directory: Path, files: Payload, *, keep: str) -> None:
    """Links for what is there, none for what is not; what earlier writes have left goes."""
    wanted = {name.partition("/")[0] for name in files}
    for name in wanted:
        link = directory / name
        if not link.is_symlink():
            try:
                link.symlink_to(f"{DATA}/{name}")
            except FileExistsError as problem:
                raise PluginError(f"{name} is in the way: another volume is to be mounted there") from problem
    for entry in directory.iterdir():
        if entry.name == _FRESH_LINK or (entry.is_symlink() and entry.name not in wanted | {DATA}):
            entry.unlink()
        elif entry.name != keep and _STAMPED.fullmatch(entry.name):
            remove_tree(entry)
