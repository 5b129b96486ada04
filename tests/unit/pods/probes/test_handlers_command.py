"""exec probes with a runtime that answers as containerd does (PH 6.2, CD 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from minikubelet.api.pod import Container
from minikubelet.pods.probes.handlers import command
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Target, error, failure
from minikubelet.runtime.cri import ExecResult
from minikubelet.runtime.errors import (
    ContainerRuntimeError,
    DeadlineExceededError,
    NotFoundError,
    RuntimeUnavailableError,
)

TARGET = Target(container=Container(name="a"), container_id="id", address="")


class Runtime:
    """Answers each command with the same, after a while."""

    def __init__(self, answer: ExecResult | ContainerRuntimeError, *, after: float = 0) -> None:
        self._answer = answer
        self._after = after
        self.calls: list[tuple[str, tuple[str, ...], int]] = []
        self.cancelled = 0

    async def __call__(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout: int,  # noqa: ASYNC109
        patience: float | None = None,  # noqa: ARG002
    ) -> ExecResult:
        self.calls.append((container_id, tuple(command), timeout))
        try:
            await asyncio.sleep(self._after)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self._answer, ContainerRuntimeError):
            raise self._answer
        return self._answer


def exited(code: int, stdout: bytes = b"", stderr: bytes = b"") -> ExecResult:
    return ExecResult(exit_code=code, stdout=stdout, stderr=stderr)


async def run(runtime: Runtime, *, timeout: int = 1) -> Attempt:  # noqa: ASYNC109
    async with asyncio.TaskGroup() as tasks:
        return await command.probe(runtime, ["sleep", "10"], TARGET, timeout=timeout, spawn=tasks.create_task)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(exited(0, b"fine"), SUCCESS, id="exit code 0"),
        pytest.param(exited(1, b"out", b"err"), failure("outerr"), id="stdout, then stderr"),
        pytest.param(exited(127, b"", b"not found"), failure("not found"), id="127 of a shell is a failure"),
        pytest.param(exited(1, b"x" * 10000, b"y" * 10000), failure("x" * 10000 + "y" * 240), id="10240 bytes"),
        pytest.param(exited(1, b"\xff"), failure("\ufffd"), id="output that is no UTF-8"),
        pytest.param(
            DeadlineExceededError("timeout 1s exceeded: context deadline exceeded"),
            failure('command timed out: "sleep 10" timed out after 1s'),
            id="the runtime's timeout",
        ),
        pytest.param(
            ContainerRuntimeError("executable file not found in $PATH"),
            error("rpc error: code = Unknown desc = executable file not found in $PATH"),
            id="no such program",
        ),
        pytest.param(NotFoundError("gone"), error("rpc error: code = NotFound desc = gone"), id="no such container"),
        pytest.param(
            RuntimeUnavailableError("down"), error("rpc error: code = Unavailable desc = down"), id="containerd away"
        ),
    ],
)
async def test_what_a_command_ends_with(answer: ExecResult | ContainerRuntimeError, expected: Attempt) -> None:
    runtime = Runtime(answer)
    assert await run(runtime) == expected
    assert runtime.calls == [("id", ("sleep", "10"), 1)]


async def test_a_timeout_is_written_as_go_writes_it() -> None:
    attempt = await run(Runtime(DeadlineExceededError("")), timeout=90)
    assert attempt == failure('command timed out: "sleep 10" timed out after 1m30s')


@pytest.mark.looptime
async def test_the_verdict_does_not_wait_for_children_that_hold_the_output() -> None:
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[object]] = []

    def spawn(call: command.Call) -> asyncio.Task[command.Settled]:
        task = loop.create_task(call)
        tasks.append(task)
        return task

    late = Runtime(DeadlineExceededError(""), after=33)
    attempt = await command.probe(late, ["sleep", "10"], TARGET, timeout=1, spawn=spawn)
    assert loop.time() == 1.5
    assert attempt == failure('command timed out: "sleep 10" timed out after 1s')
    await asyncio.wait(tasks)
    assert loop.time() == 33, "the call goes on, so that its end is known"


@pytest.mark.looptime
async def test_a_cancelled_attempt_cancels_its_call() -> None:
    runtime = Runtime(exited(0), after=100)
    task = asyncio.create_task(run(runtime, timeout=50))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runtime.cancelled == 1
