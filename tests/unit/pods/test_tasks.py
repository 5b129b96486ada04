from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from minikubelet.pods.tasks import Abandoned, Handle, uncut


async def test_an_uncut_call_ends_before_its_cancelled_caller() -> None:
    steps: list[str] = []
    go = asyncio.Event()

    async def call() -> None:
        await go.wait()
        steps.append("call")

    async def caller() -> None:
        try:
            await uncut(call(), name="call")
        finally:
            steps.append("caller")

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert steps == []
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["call", "caller"]


async def test_the_failure_of_a_call_whose_caller_was_cancelled_is_nobody_s_news() -> None:
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    go = asyncio.Event()

    async def call() -> None:
        await go.wait()
        raise Abandoned

    task = asyncio.create_task(uncut(call(), name="call"))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0.01)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    assert complaints == []


async def test_what_may_be_cut_is_abandoned_at_once() -> None:
    handle = Handle()
    verdict = asyncio.get_running_loop().create_future()

    async def work() -> None:
        try:
            async with handle.may_cut():
                await asyncio.Event().wait()
        except Abandoned:
            verdict.set_result("abandoned")

    task = asyncio.create_task(work())
    handle.bind(task)
    await asyncio.sleep(0)
    handle.abandon()
    assert await verdict == "abandoned"
    await task
    assert not task.cancelled()


async def test_what_must_not_be_cut_goes_on_until_its_next_check() -> None:
    handle = Handle()
    go = asyncio.Event()
    passed: list[int] = []

    async def work() -> None:
        await go.wait()
        passed.append(1)
        handle.check()
        passed.append(2)

    task = asyncio.create_task(work())
    handle.bind(task)
    await asyncio.sleep(0)
    handle.abandon()
    go.set()
    with pytest.raises(Abandoned):
        await task
    assert passed == [1]


async def test_a_real_cancellation_inside_a_cuttable_part_stays_one() -> None:
    handle = Handle()

    async def work() -> None:
        async with handle.may_cut():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    handle.bind(task)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
