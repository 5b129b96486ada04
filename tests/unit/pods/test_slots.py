from __future__ import annotations

import asyncio

import pytest

from minikubelet.pods.slots import StartSlots, Turn
from minikubelet.pods.tasks import Abandoned, Handle


async def test_a_pod_that_has_begun_goes_before_one_that_has_not() -> None:
    slots = StartSlots(1)
    order: list[str] = []

    async def work(name: str, turn: Turn) -> None:
        async with slots.one(turn):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for name, turn in (
            ("sandbox 1", Turn.SANDBOX),
            ("sandbox 2", Turn.SANDBOX),
            ("sandbox 3", Turn.SANDBOX),
            ("container 1", Turn.CONTAINER),
            ("container 2", Turn.CONTAINER),
        ):
            tasks.create_task(work(name, turn))
    assert order == ["sandbox 1", "container 1", "container 2", "sandbox 2", "sandbox 3"]


async def test_no_more_at_a_time_than_there_are_slots() -> None:
    slots = StartSlots(2)
    now, most = 0, 0

    async def work() -> None:
        nonlocal now, most
        async with slots.one(Turn.CONTAINER):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert most == 2


async def test_a_slot_is_given_back_however_the_wait_for_it_ends() -> None:
    slots = StartSlots(1)
    first, second, third = Handle(), Handle(), Handle()
    outcomes: list[str] = []
    go = asyncio.Event()

    async def work(handle: Handle) -> None:
        try:
            async with handle.slot(slots, Turn.CONTAINER):
                await go.wait()
                outcomes.append("worked")
        except Abandoned:
            outcomes.append("abandoned")

    tasks = [asyncio.create_task(work(handle)) for handle in (first, second)]
    for handle, task in zip((first, second), tasks, strict=True):
        handle.bind(task)
    await asyncio.sleep(0)
    second.abandon()  # while it waits for its slot
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*tasks)
    third.abandon()
    await work(third)
    assert outcomes == ["abandoned", "worked", "abandoned"]
    async with asyncio.timeout(1), slots.one(Turn.CONTAINER):
        pass


@pytest.mark.parametrize("granted_first", [True, False])
async def test_a_cancelled_wait_leaves_the_slot_to_the_next(granted_first: bool) -> None:
    slots = StartSlots(1)
    holding = slots.one(Turn.CONTAINER)
    await holding.__aenter__()
    waiting = asyncio.create_task(slots.one(Turn.CONTAINER).__aenter__())
    await asyncio.sleep(0)
    if granted_first:
        await holding.__aexit__(None, None, None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not granted_first:
        await holding.__aexit__(None, None, None)
    async with asyncio.timeout(1), slots.one(Turn.SANDBOX):
        pass
