"""Starts and removals of images keep out of each other's way."""

from __future__ import annotations

import asyncio
import contextlib

from minikubelet.pods.image_uses import ImageUses


def test_what_a_start_holds_is_not_removed_until_the_last_one_lets_go() -> None:
    uses = ImageUses()
    with uses.held({"a", "b"}):
        with uses.held({"a"}), uses.removing({"id-a", "a"}) as may:
            assert not may
        with uses.removing({"a"}) as may:
            assert not may
        with uses.removing({"c"}) as may:
            assert may
    with uses.removing({"a", "b"}) as may:
        assert may


async def test_a_start_waits_for_a_removal_of_its_own_images_only() -> None:
    uses = ImageUses()
    with uses.removing({"id-a", "a"}):
        await uses.settled({"b"})
        with uses.held({"a"}):
            waiting = asyncio.create_task(uses.settled({"a"}))
            await asyncio.sleep(0)
            assert not waiting.done()
    await waiting


async def test_a_start_waits_for_all_removals_of_what_it_needs() -> None:
    uses = ImageUses()
    with uses.removing({"a"}):
        waiting = asyncio.create_task(uses.settled({"a", "b"}))
        await asyncio.sleep(0)
        second = uses.removing({"b"})
        second.__enter__()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    second.__exit__(None, None, None)
    await waiting


async def test_a_removal_that_fails_is_over_too() -> None:
    uses = ImageUses()
    with contextlib.suppress(OSError), uses.removing({"a"}):
        raise OSError
    await uses.settled({"a"})
