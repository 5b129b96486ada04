"""Image names: the short form people write, and the full form image records carry (IM-1, IM-2, CD 9)."""

from __future__ import annotations

import re

_HUB = "docker.io"
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::\d+)?"
)


class InvalidImageName(ValueError):
    """Not an image name; the text says why."""


def split(image: str) -> tuple[str, str, str, str]:
    """(domain, repository, tag, digest) of a name; tag and digest may be empty. Raises InvalidImageName (IM-1)."""
    try:
        return _split(image)
    except InvalidImageName as error:
        raise InvalidImageName(f'couldn\'t parse image name "{image}": invalid reference format{error}') from None


def _split(image: str) -> tuple[str, str, str, str]:
    rest, _, digest = image.partition("@")
    if "@" in image and not _DIGEST.fullmatch(digest):
        raise InvalidImageName
    if re.fullmatch(r"[0-9a-f]{64}", image):
        raise InvalidImageName(f": cannot specify 64-byte hexadecimal strings: {image}")
    first, slash, remainder = rest.partition("/")
    if slash and (first == "localhost" or re.search(r"[.:]|[A-Z]", first)):
        domain, path = first, remainder
    else:
        domain, path = _HUB, rest
    if domain == f"index.{_HUB}":
        domain = _HUB
    if not _DOMAIN.fullmatch(domain):
        raise InvalidImageName
    repository, colon, tag = path.partition(":")
    if domain == _HUB and "/" not in repository:
        repository = f"library/{repository}"
    if repository != repository.lower():
        raise InvalidImageName(f": repository name ({repository}) must be lowercase")
    if not _REPOSITORY.fullmatch(repository) or (colon and not _TAG.fullmatch(tag)):
        raise InvalidImageName
    if len(repository) > 255:
        raise InvalidImageName(": repository name must not be more than 255 characters")
    return domain, repository, tag, digest


def normalized(image: str) -> str:
    """The full name, e.g. `busybox` -> `docker.io/library/busybox:latest`. Raises InvalidImageName."""
    domain, repository, tag, digest = split(image)
    if not tag and not digest:
        tag = "latest"
    return f"{domain}/{repository}" + (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")


def with_default_tag(image: str) -> str:
    """The name as written, plus `:latest` if it has neither tag nor digest (IM-2). Raises InvalidImageName."""
    _, _, tag, digest = split(image)
    return image if tag or digest else f"{image}:latest"
