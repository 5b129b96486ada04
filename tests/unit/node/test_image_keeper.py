"""Looking at images and removing them, with a runtime that is told what to have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection

import pytest

from minikubelet.node import image_keeper
from minikubelet.node.image_gc import Limits, Usage
from minikubelet.node.image_keeper import ImageKeeper
from minikubelet.pods.image_uses import ImageUses
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.runtime.images import Record
from minikubelet.runtime.pb import cri_pb2

EPOCH = 1_000_000.0


class World:
    """Images of 10 bytes each; the file system has as many bytes as it is told, and holds nothing else."""

    def __init__(self, *names: str, capacity: int = 1000, limits: Limits | None = None) -> None:
        self.images = {name: cri_pb2.Image(id=f"id-{name}", repo_tags=[name], size=10) for name in names}
        self.others: set[str] = set()
        self.busy: set[str] = set()  # cannot be removed
        self.containers: list[cri_pb2.Container] = []
        self.sandboxes: list[cri_pb2.PodSandbox] = []
        self.capacity = capacity
        self.wanted: set[str] = set()
        self.held: set[str] = set()
        self.short: list[str] = []
        self.uses = ImageUses()
        self.removal: Callable[[str], Awaitable[None]] | None = None  # happens in the course of each
        self.keeper = ImageKeeper(
            self,
            self,
            archives=self,
            uses=self.uses,
            wanted=lambda: self.wanted,
            sandbox_image=lambda: "pause",
            limits=limits or Limits(),
            short=self.short.append,
            clock=lambda: EPOCH + asyncio.get_running_loop().time(),
            usage=lambda _: Usage(capacity=self.capacity, available=self.capacity - 10 * len(self.images)),
        )

    async def list_images(self) -> list[cri_pb2.Image]:
        return list(self.images.values())

    async def remove(self, image: str) -> None:
        name = image.removeprefix("id-")
        if name in self.busy:
            raise ContainerRuntimeError("no")
        if self.removal is not None:
            await self.removal(name)
        del self.images[name]

    async def status(self, image: str) -> cri_pb2.Image | None:
        return next((it for it in self.images.values() if image in (it.id, *it.repo_tags)), None)

    async def records(self) -> dict[str, Record]:
        return {name: Record(digest=name, brought=name not in self.others) for name in self.images}

    async def filesystem(self) -> list[cri_pb2.FilesystemUsage]:
        return [cri_pb2.FilesystemUsage(fs_id=cri_pb2.FilesystemIdentifier(mountpoint="/images"))]

    async def list_containers(self) -> list[cri_pb2.Container]:
        return self.containers

    async def list_pod_sandboxes(self) -> list[cri_pb2.PodSandbox]:
        return self.sandboxes

    async def idle(self) -> None:
        return

    def names(self) -> Collection[str]:
        return self.held

    def use(self, *names: str) -> None:
        self.containers = [cri_pb2.Container(image_ref=f"id-{name}") for name in names]

    async def until(self, seconds: float) -> None:
        """Let the keeper run for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.keeper.run()


@pytest.mark.looptime
async def test_a_full_disk_loses_what_was_unused_for_longest_until_there_is_room() -> None:
    world = World("a", "b", "c", "d", "pause", capacity=55)  # 90 percent; 5.5 bytes are free, 11 have to be
    world.use("c")
    world.wanted = {"d"}
    await world.until(image_keeper.PERIOD - 1)
    assert set(world.images) == {"a", "b", "c", "d", "pause"}
    await world.until(image_keeper.PERIOD + 1)
    assert set(world.images) == {"b", "c", "d", "pause"}
    assert world.short == []


@pytest.mark.looptime
async def test_what_cannot_be_freed_is_told() -> None:
    world = World("a", "b", "others", "archived", "busy", capacity=50)
    world.others, world.held, world.busy = {"others"}, {"archived"}, {"busy"}
    world.use("a")
    await world.until(image_keeper.PERIOD + 1)
    assert set(world.images) == {"a", "others", "archived", "busy"}
    assert world.short == []  # 10 were to be freed and 10 were
    world.use("a", "busy")
    await world.until(image_keeper.PERIOD + 1)
    assert world.short == []  # 80 percent are used now
    world.capacity = 40
    await world.until(image_keeper.PERIOD + 1)
    assert world.short == [
        "the file system with the images is fuller than 85 %: 8 bytes of images were to be removed, but only 0 could be"
    ]


@pytest.mark.looptime
async def test_an_empty_disk_loses_only_what_is_too_old() -> None:
    world = World("a", "b", limits=Limits(maximum_age=400.0))
    world.use("b")
    await world.until(image_keeper.PERIOD + 1)
    assert set(world.images) == {"a", "b"}
    await world.until(image_keeper.PERIOD + 1)
    assert set(world.images) == {"b"}


async def test_prune_takes_what_nothing_needs_now_and_others_only_when_told() -> None:
    world = World("a", "used", "others", "pause")
    world.others = {"others"}
    world.use("used")
    assert [it.names[0] async for it in world.keeper.prune(others=False)] == ["a"]
    assert [it.names[0] async for it in world.keeper.prune(others=True)] == ["others"]
    assert set(world.images) == {"used", "pause"}


async def test_an_image_is_ours_only_if_all_its_names_are() -> None:
    world = World("a")
    world.images["a"].repo_digests.append("a@sha256:1")
    (image,) = await world.keeper.look()
    assert image.protected == "others'"


@pytest.mark.looptime
async def test_a_runtime_that_is_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("a")

    async def away() -> list[cri_pb2.Image]:
        raise ContainerRuntimeError("away")

    monkeypatch.setattr(world, "list_images", away)
    await world.until(3 * image_keeper.PERIOD)


async def test_d_8_the_sandbox_image_is_in_use_where_there_are_sandboxes() -> None:
    world = World("a", "pause")
    assert [it.in_use for it in await world.keeper.look()] == [False, False]
    world.sandboxes = [cri_pb2.PodSandbox(id="s")]
    assert [(it.id, it.in_use) for it in await world.keeper.look()] == [("id-a", False), ("id-pause", True)]


# ---- what comes while images are being removed ---------------------------------------
def _wanted(world: World) -> None:
    world.wanted = {"b"}


def _wanted_by_id(world: World) -> None:
    world.wanted = {"id-b"}


def _used(world: World) -> None:
    world.use("b")


def _archived(world: World) -> None:
    world.held = {"b"}


def _others(world: World) -> None:
    world.others = {"b"}


def _renamed(world: World) -> None:
    world.images["b"].repo_tags.append("a")


def _gone(world: World) -> None:
    del world.images["b"]


COMES = [
    pytest.param(_wanted, id="GI-1 a manifest names it"),
    pytest.param(_wanted_by_id, id="GI-1 a manifest names it by its id"),
    pytest.param(_used, id="GI-1 a container has it"),
    pytest.param(_archived, id="GC-4 an archive holds it"),
    pytest.param(_others, id="GC-4 others brought it anew"),
    pytest.param(_renamed, id="GI-1 it got another name"),
    pytest.param(_gone, id="GI-1 somebody else removed it"),
]


@pytest.mark.parametrize("comes", COMES)
async def test_prune_asks_again_before_each_removal(comes: Callable[[World], None]) -> None:
    world = World("a", "b", "c")
    removed = []
    async for image in world.keeper.prune(others=False):
        removed.append(image.names[0])
        if image.names[0] == "a":
            comes(world)
    assert removed == ["a", "c"]


@pytest.mark.looptime
@pytest.mark.parametrize("comes", COMES)
async def test_clean_up_asks_again_before_each_removal(comes: Callable[[World], None]) -> None:
    world = World("a", "b", "c", capacity=30, limits=Limits(high=1, low=0))

    async def during(name: str) -> None:
        if name == "a":
            comes(world)

    world.removal = during
    await world.until(image_keeper.PERIOD + 1)
    assert set(world.images) - {"b"} == set()
    assert ("b" in world.images) == (comes is not _gone)
    assert world.short


async def test_what_a_start_is_about_to_use_is_not_removed() -> None:
    world = World("a", "b", "c")
    with world.uses.held({"b"}):
        assert [it.names[0] async for it in world.keeper.prune(others=False)] == ["a", "c"]
    assert [it.names[0] async for it in world.keeper.prune(others=False)] == ["b"]


async def test_a_start_waits_for_the_removal_of_its_image_and_not_for_who_reads_of_it() -> None:
    world = World("a", "b")
    under_way, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_name: str) -> None:
        under_way.set()
        await go_on.wait()

    async def start() -> cri_pb2.Image | None:
        with world.uses.held({"a"}):
            await world.uses.settled({"a"})
            return await world.status("a")

    world.removal = slow
    pruning = world.keeper.prune(others=False)
    first = asyncio.ensure_future(anext(pruning))
    await under_way.wait()
    starting = asyncio.create_task(start())
    await asyncio.sleep(0)
    assert not starting.done()
    go_on.set()
    assert (await first).names == ("a",)
    assert await starting is None
    await pruning.aclose()
