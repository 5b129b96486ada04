"""The exec probe, and the one way probes and hooks run a command in a container (PH 6.2, 7.4, CD 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from minikubelet.pods.gotext import duration, quote
from minikubelet.pods.probes.handlers.base import MAX_OUTPUT, SUCCESS, Attempt, Target, error, failure
from minikubelet.runtime import errors

#: The runtime counts the timeout from the start of the process and reports it itself. Where it does not, because a
#: child of the killed process holds its output open, the verdict is given this many seconds later without it,
GRACE = 0.5
#: and the call itself is given up after so many (PH 6.2).
PATIENCE = 120.0

_CODES: tuple[tuple[type[errors.ContainerRuntimeError], str], ...] = (
    (errors.DeadlineExceededError, "DeadlineExceeded"),
    (errors.NotFoundError, "NotFound"),
    (errors.RuntimeUnavailableError, "Unavailable"),
    (errors.UnimplementedError, "Unimplemented"),
)


class ExecOutput(Protocol):
    """What a command left behind."""

    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def exit_code(self) -> int: ...


class ExecSync(Protocol):
    """Runs a command in a container, no shell, no tty; `timeout` in whole seconds, 0: none.

    Raises the classes of `runtime.errors`; DeadlineExceeded when the command took too long. May return long after that:
    when the last process that holds the command's output is gone, or `patience` seconds after the timeout.
    """

    def __call__(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout: int,
        patience: float | None = None,
    ) -> Coroutine[Any, Any, ExecOutput]: ...


#: How a call ends: with its result, or with its error as a value, because nobody may be waiting for it any more.
Settled = ExecOutput | Exception
Call = Coroutine[Any, Any, Settled]
#: Starts a call as a task that may outlive the attempt; its owner waits for it before it starts another.
Spawn = Callable[[Call], asyncio.Task[Settled]]


async def probe(exec_sync: ExecSync, command: Sequence[str], target: Target, *, timeout: int, spawn: Spawn) -> Attempt:  # noqa: ASYNC109
    """Run the (expanded) command within `timeout` seconds. Only a command that could not be run at all is an error."""
    call = spawn(_settled(partial(exec_sync, target.container_id, command, timeout=timeout, patience=PATIENCE)))
    try:
        done, _ = await asyncio.wait({call}, timeout=timeout + GRACE)
    except asyncio.CancelledError:
        call.cancel()
        raise
    result = call.result() if done else errors.DeadlineExceededError("its output is still held open")
    if isinstance(result, errors.DeadlineExceededError):
        return failure(f"command timed out: {quote(' '.join(command))} timed out after {duration(timeout)}")
    if isinstance(result, errors.ContainerRuntimeError):
        return error(rpc_text(result))
    if isinstance(result, Exception):
        raise result
    if result.exit_code == 0:
        return SUCCESS
    return failure((result.stdout + result.stderr)[:MAX_OUTPUT].decode(errors="replace"))


async def _settled(call: Callable[[], Coroutine[Any, Any, ExecOutput]]) -> Settled:
    try:
        return await call()
    except Exception as problem:  # noqa: BLE001 - handed on, not hidden
        return problem


def rpc_text(problem: errors.ContainerRuntimeError) -> str:
    """A runtime error as Go's gRPC prints it: `rpc error: code = Unknown desc = ...`."""
    code = next((name for kind, name in _CODES if isinstance(problem, kind)), "Unknown")
    return f"rpc error: code = {code} desc = {problem}"
