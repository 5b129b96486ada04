"""What can go wrong at the runtime, in a handful of classes: gRPC errors end at this border.

`str(error)` is the runtime's own text and nothing else, because it is shown to users as it is (CC-11).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import grpc
import grpc.aio

_HOLDER = re.compile(r'is reserved for "([0-9a-f]{64})"')
_LOADING = "server is not initialized yet"


class ContainerRuntimeError(Exception):
    """The runtime refused or failed. The gRPC error is its `__cause__`."""


class RuntimeUnavailableError(ContainerRuntimeError):
    """containerd is down, restarting or still loading: the same call works later (CD 5, 11)."""


class NotFoundError(ContainerRuntimeError):
    """No such sandbox, container or image."""


class NameReservedError(ContainerRuntimeError):
    """The name of a sandbox or container is taken; `holder` is the id that has it (CD 5)."""

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class DeadlineExceededError(ContainerRuntimeError):
    """The call, or the command it ran, took longer than it may."""


class UnimplementedError(ContainerRuntimeError):
    """The runtime does not have this service or method."""


def translate(error: grpc.aio.AioRpcError) -> ContainerRuntimeError:
    """The error of our own for a gRPC one. Texts decide before codes: codes differ between versions (CD 5)."""
    text = error.details() or error.code().name
    if held := _HOLDER.search(text):
        return NameReservedError(text, held[1])
    if _LOADING in text:
        return RuntimeUnavailableError(text)
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return RuntimeUnavailableError(text)
        case grpc.StatusCode.NOT_FOUND:
            return NotFoundError(text)
        # A deadline of ours shows, rarely, as CANCELLED; a cancelled task of ours raises CancelledError instead.
        case grpc.StatusCode.DEADLINE_EXCEEDED | grpc.StatusCode.CANCELLED:
            return DeadlineExceededError(text)
        case grpc.StatusCode.UNIMPLEMENTED:
            return UnimplementedError(text)
    return ContainerRuntimeError(text)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn gRPC errors of the block into our own."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error
