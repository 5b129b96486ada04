"""How far each field of a Kubernetes object is supported, written beside the field itself.

A field without a mark is supported. To move a field from refused to supported, delete its mark. `decode` acts on the
marks; `matrix` lists them all, for the documentation of what is supported.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator

import msgspec

from minikubelet.api.base import Object


class Level(enum.Enum):
    SUPPORTED = "supported"
    #: Read, checked, kept in the shown spec, and named once in the log: it means nothing on a single host.
    ACCEPTED = "accepted"
    #: A manifest that sets it is refused.
    REFUSED = "refused"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    level: Level
    reason: str = ""
    #: Refuse also `{}`, `[]`, `""` and `false`: choosing the field at all already means something.
    even_empty: bool = False
    #: Keep the value in the object.
    keep: bool = True


SUPPORTED = Mark(level=Level.SUPPORTED)
NO_CLUSTER = Mark(level=Level.ACCEPTED, reason="has no meaning without a cluster")


def accepted(reason: str, *, keep: bool = True) -> Mark:
    return Mark(level=Level.ACCEPTED, reason=reason, keep=keep)


def refused(reason: str, *, even_empty: bool = False) -> Mark:
    return Mark(level=Level.REFUSED, reason=reason, even_empty=even_empty)


NO_DEVICE_CLAIMS = refused(
    "static pods may not reference resourceclaims: there is no API server to allocate a device; leave it out, and give "
    "the container the device itself, as a hostPath below /dev with privileged: true"
)


def mark_of(annotation: object) -> Mark:
    """The mark within a field's type annotation."""
    if typing.get_origin(annotation) is typing.Annotated:
        return next((extra for extra in typing.get_args(annotation)[1:] if isinstance(extra, Mark)), SUPPORTED)
    return SUPPORTED


class Row(msgspec.Struct, frozen=True):
    """One line of the support matrix."""

    path: str
    mark: Mark


def matrix(cls: type[Object], path: str = "") -> Iterator[Row]:
    """Every field below a struct, in the order of its definition; list items are written `containers[]`."""
    for field in msgspec.structs.fields(cls):
        own = f"{path}.{field.encode_name}" if path else field.encode_name
        mark = mark_of(field.type)
        yield Row(own, mark)
        if mark.level is not Level.REFUSED:
            for child, suffix in structs_in(field.type):
                yield from matrix(child, own + suffix)


def structs_in(annotation: object) -> Iterator[tuple[type[Object], str]]:
    """The structs that a field's type holds, with how they are reached: directly, `[]` in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Object):
        yield annotation, ""
        return
    suffix = "[]" if typing.get_origin(annotation) is tuple else ""
    for argument in typing.get_args(annotation):
        for child, inner in structs_in(argument):
            yield child, suffix + inner
