"""Which logins are tried for an image, in which order (IM-9): pure.

`pull_credentials.py` brings the entries, from a pod's Secrets and from this node's own files.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import NamedTuple

from minikubelet.api.docker_config import Entry, Login
from minikubelet.api.image_name import HUB

#: Under this name the Hub's entry is written, for reasons of history.
_HUB_ENTRY = f"index.{HUB}"


class _Place(NamedTuple):
    """A registry, or a part of it: `HOST[:PORT][/PATH]`. Host labels may have wild cards in an entry."""

    labels: list[str]
    port: str
    path: str


def logins_for(repository: str, *sources: Iterable[Entry]) -> tuple[Login, ...]:
    """The logins for an image's repository (`docker.io/library/busybox`), best first; each source in its turn.

    Entries that name more of a path come before those that name less: several may fit, as when a password is changed.
    """
    found = [login for entries in sources for login in _of_source(repository, entries)]
    return tuple(dict.fromkeys(found))


def _of_source(repository: str, entries: Iterable[Entry]) -> list[Login]:
    by_key: dict[str, list[Login]] = {}
    for entry in entries:
        if key := _key(entry.location):
            by_key.setdefault(key, []).append(entry.login)
    wanted = _place(repository)
    found = [login for key in sorted(by_key, reverse=True) if _fits(_place(key), wanted) for login in by_key[key]]
    if not found and repository.startswith(f"{HUB}/"):
        return by_key.get(_HUB_ENTRY, [])
    return found


def _key(location: str) -> str:
    """The location without its scheme and API version, "" if it is none."""
    bare = re.sub(r"[?#].*", "", location.removeprefix("https://").removeprefix("http://"))
    host, slash, path = bare.partition("/")
    host, path = host.rpartition("@")[2], slash + path
    for version in ("/v1", "/v2"):
        if path == version or path.startswith(f"{version}/"):
            path = path.removeprefix(version)
            break
    return host if path in ("", "/") else host + path


def _place(key: str) -> _Place:
    host, slash, path = key.partition("/")
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):  # an IPv6 address without a port
        name, port = host, ""
    return _Place(name.split("."), port, slash + path)


def _fits(entry: _Place, image: _Place) -> bool:
    return (
        entry.port == image.port
        and len(entry.labels) == len(image.labels)
        and image.path.startswith(entry.path)
        and all(map(_label_fits, entry.labels, image.labels))
    )


def _label_fits(pattern: str, label: str) -> bool:
    return fnmatch.fnmatchcase(label, pattern.replace("[^", "[!")) or label == pattern
