from __future__ import annotations

import grpc
import grpc.aio
import pytest

from minikubelet.runtime import errors


def _rpc_error(code: grpc.StatusCode, text: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", errors.RuntimeUnavailableError),
        (grpc.StatusCode.UNKNOWN, "server is not initialized yet", errors.RuntimeUnavailableError),
        (grpc.StatusCode.NOT_FOUND, "gone", errors.NotFoundError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "late", errors.DeadlineExceededError),
        (grpc.StatusCode.CANCELLED, "late", errors.DeadlineExceededError),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service", errors.UnimplementedError),
        (grpc.StatusCode.UNKNOWN, "boom", errors.ContainerRuntimeError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too big", errors.ContainerRuntimeError),
    ],
)
def test_each_code_has_its_class_and_the_text_is_the_runtimes(
    code: grpc.StatusCode, text: str, expected: type[errors.ContainerRuntimeError]
) -> None:
    translated = errors.translate(_rpc_error(code, text))
    assert type(translated) is expected
    assert str(translated) == text


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.FAILED_PRECONDITION])
def test_a_taken_name_is_known_by_its_text_on_every_version(code: grpc.StatusCode) -> None:
    holder = "0123456789abcdef" * 4
    error = errors.translate(_rpc_error(code, f'name "x" is reserved for "{holder}"'))
    assert isinstance(error, errors.NameReservedError)
    assert error.holder == holder


def test_the_grpc_error_is_the_cause() -> None:
    cause = _rpc_error(grpc.StatusCode.UNKNOWN, "boom")
    with pytest.raises(errors.ContainerRuntimeError) as caught, errors.translated():
        raise cause
    assert caught.value.__cause__ is cause


def test_without_a_text_the_code_is_named() -> None:
    assert str(errors.translate(_rpc_error(grpc.StatusCode.INTERNAL, ""))) == "INTERNAL"
