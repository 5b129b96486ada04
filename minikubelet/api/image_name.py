"""Image names (IM-1, IM-2): what registry, repository, tag and digest a name of a manifest means.

Defaults need the tag (a moving `latest` is always pulled), the runtime room needs the name with its default tag.
"""

from __future__ import annotations

import functools
import re

import msgspec

HUB = "docker.io"
_HUB_ALIAS = "index.docker.io"

_DOMAIN_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = re.compile(rf"(?:{_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PATH_PART}(?:/{_PATH_PART})*")
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_HEX_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_IDENTIFIER = re.compile(r"[0-9a-f]{64}")
_LONGEST_REPOSITORY = 255


class ImageNameError(ValueError):
    """The text is no image name; the message is the reference's (IM-1)."""


class ImageName(msgspec.Struct, frozen=True, kw_only=True):
    domain: str
    #: Without the domain, e.g. `library/busybox`.
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        return f"{self.domain}/{self.path}"

    def __str__(self) -> str:
        return self.repository + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


@functools.lru_cache(maxsize=1024)
def parse(image: str) -> ImageName:
    """The parts of an image name, normalised: `busybox` is `docker.io/library/busybox`, without a tag.

    Raises ImageNameError: with the text `couldn't parse image name "<image>": invalid reference format...`.
    """
    if _IDENTIFIER.fullmatch(image):
        raise _error(
            image, f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings", prefix=False
        )
    rest, _, digest = image.partition("@")
    domain, path = _split_domain(rest)
    path, colon, tag = path.partition(":")
    if path != path.lower():
        raise _error(image, f": repository name ({path}) must be lowercase")
    if "@" in image:
        algorithm, _, digits = digest.partition(":")
        if not _DIGEST.fullmatch(digest):
            raise _error(image)
        if algorithm not in _HEX_DIGITS:
            raise _error(image, "unsupported digest algorithm", prefix=False)
        if len(digits) != _HEX_DIGITS[algorithm]:
            raise _error(image, "invalid checksum digest length", prefix=False)
    if not _DOMAIN.fullmatch(domain) or not _PATH.fullmatch(path) or (colon and not _TAG.fullmatch(tag)):
        raise _error(image)
    if len(f"{domain}/{path}") > _LONGEST_REPOSITORY:
        raise _error(image, f"repository name must not be more than {_LONGEST_REPOSITORY} characters", prefix=False)
    return ImageName(domain=domain, path=path, tag=tag, digest=digest)


def with_default_tag(image: str) -> str:
    """The image as the runtime is asked for it: the manifest's text, with `:latest` if it has neither tag nor digest.

    Raises ImageNameError: as `parse`.
    """
    name = parse(image)
    return image if name.tag or name.digest else f"{image}:latest"


def full_name(image: str) -> str:
    """The name under which the runtime knows the image: `busybox` is `docker.io/library/busybox:latest`.

    Where there is a digest a tag means nothing.

    Raises ImageNameError: as `parse`.
    """
    name = parse(with_default_tag(image))
    return f"{name.repository}@{name.digest}" if name.digest else str(name)


def default_pull_policy(image: str) -> str:
    """`Always` for a tag that moves (`latest`, also when none is written), else `IfNotPresent` (IN-9)."""
    try:
        name = parse(image)
    except ImageNameError:
        return "IfNotPresent"
    return "Always" if name.tag == "latest" or not (name.tag or name.digest) else "IfNotPresent"


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    is_domain = bool(slash) and (first == "localhost" or "." in first or ":" in first or first != first.lower())
    domain, path = (first, rest) if is_domain else (HUB, name)
    if domain == _HUB_ALIAS:
        domain = HUB
    if domain == HUB and "/" not in path:
        path = f"library/{path}"
    return domain, path


def _error(image: str, detail: str = "", *, prefix: bool = True) -> ImageNameError:
    reason = f"invalid reference format{detail}" if prefix else detail
    return ImageNameError(f'couldn\'t parse image name "{image}": {reason}')
