"""Which files of the folder are image archives, and when one counts as whole enough to be read. For `archives`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from minikubelet.sources.listing import Hints, Read, check_quiet
from minikubelet.sources.reading import Signature, UnusableError, signature_of, signature_quietly

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
#: Ways to pack one that are not known; such a file is told of and not ignored.
_OTHER_SUFFIXES = (".tar.xz", ".txz", ".tar.bz2", ".tbz", ".tbz2", ".tar.lz4", ".zip", ".7z")
FOLDER = "is a folder; pack what is in it as a .tar"


def is_archive(name: str) -> bool:
    return name.endswith(SUFFIXES + _OTHER_SUFFIXES) and not name.startswith(".")


class Settled(NamedTuple):
    """A file that is nobody's who still writes it."""

    #: With the name as the file system has it, which need not be the one that is shown.
    path: Path
    signature: Signature


def settled_archive(path: Path, name: str, hint: Hints, *, leaseless_patience: float) -> Read[Settled]:
    """Its content is read later, and checked: here it only has to be nobody's who still writes it."""
    if name.endswith(_OTHER_SUFFIXES):
        raise UnusableError("is packed in a way that is not known; make it a .tar, .tar.gz or .tar.zst")
    signature, leased = signature_quietly(path)
    check_quiet(signature, hint, leased=leased, leaseless_patience=leaseless_patience)
    return Read(signature, Settled(path, signature))


def signature_now(path: Path) -> Signature | None:
    try:
        return signature_of(path.stat())
    except OSError:
        return None


def why_unreadable(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return (
            "the folder of image archives is not there any more; the images from it are kept. Bring it back, or make it"
        )
    if isinstance(error, NotADirectoryError):
        return "is not a folder; set imageArchivesPath to one"
    return f"the folder of image archives cannot be read: {error.strerror}"
