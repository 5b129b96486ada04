"""Which images are removed (GI-1, D-8), as tables."""

from __future__ import annotations

import pytest

from minikubelet.node import image_gc
from minikubelet.node.image_gc import Image, Limits, Sight, Usage

GI = 1 << 30
NOW = 10_000.0
LIMITS = Limits()


@pytest.mark.parametrize(
    ("capacity", "available", "limits", "expected"),
    [
        pytest.param(100 * GI, 16 * GI, LIMITS, 0, id="GI-1 84 percent used is nothing to free"),
        pytest.param(100 * GI, 15 * GI, LIMITS, 5 * GI, id="GI-1 at 85 percent down to 80"),
        pytest.param(100 * GI, 0, LIMITS, 20 * GI, id="GI-1 all that is above 80"),
        pytest.param(1000, 151, LIMITS, 49, id="GI-1 the part of a percent that is available does not count"),
        pytest.param(100 * GI, 0, Limits(high=100, low=80), 0, id="GI-1 high 100 is off"),
        pytest.param(0, 0, LIMITS, 0, id="GI-1 nothing known of the file system"),
        pytest.param(100 * GI, 50 * GI, Limits(high=50, low=10), 40 * GI, id="GI-1 other thresholds"),
        pytest.param(1000, 0, Limits(high=0, low=0), 1000, id="GI-1 down to nothing"),
    ],
)
def test_how_much_is_to_be_freed(capacity: int, available: int, limits: Limits, expected: int) -> None:
    assert image_gc.bytes_to_free(Usage(capacity=capacity, available=available), limits) == expected


NAMES = ("d/x:1", "d/x@sha256:1")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "", id="GI-1 one that we brought and nothing needs"),
        pytest.param({"pinned": True}, "pinned", id="GI-1 pinned"),
        pytest.param({"sandbox_image": "d/x:1"}, "sandbox image", id="D-8 the sandbox image"),
        pytest.param({"archives": {"d/x:1"}}, "archive", id="of an archive that is there"),
        pytest.param({"wanted": {"d/x:1", "d/y:1"}}, "manifest", id="named by a manifest"),
        pytest.param({"wanted": {"d/x@sha256:1"}}, "manifest", id="named by its digest"),
        pytest.param({"wanted": {"d/x:2"}, "archives": {"d/x:3"}}, "", id="others of its repository are needed"),
        pytest.param(
            {"sandbox_image": "d/x:1", "pinned": True, "archives": {"d/x:1"}},
            "archive, sandbox image",
            id="all reasons",
        ),
        pytest.param({"brought": False}, "others'", id="GC-4 not brought by us"),
        pytest.param({"brought": False, "wanted": {"d/x:1"}}, "manifest", id="prune --all must not take it"),
    ],
)
def test_what_keeps_an_image(fields: dict[str, object], expected: str) -> None:
    given: dict[str, object] = {"pinned": False, "brought": True, "sandbox_image": "", "archives": (), "wanted": ()}
    assert image_gc.protection(NAMES, **{**given, **fields}) == expected  # type: ignore[arg-type]


def image(name: str, *, in_use: bool = False, protected: str = "") -> Image:
    return Image(id=name, names=(name,), in_use=in_use, protected=protected)


SIGHTS = {
    "old": Sight(first=0.0),
    "older-but-used-lately": Sight(first=0.0, used=9_000.0),
    "used-long-ago": Sight(first=0.0, used=100.0),
    "young": Sight(first=NOW - 119),
    "two-minutes": Sight(first=NOW - 120),
}


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        pytest.param(
            [image("older-but-used-lately"), image("used-long-ago")],
            ["used-long-ago", "older-but-used-lately"],
            id="GI-1 least recently used first",
        ),
        pytest.param(
            [image("two-minutes"), image("old"), image("used-long-ago")],
            ["old", "two-minutes", "used-long-ago"],
            id="GI-1 then first seen first",
        ),
        pytest.param([image("young"), image("two-minutes")], ["two-minutes"], id="GI-1 not before the minimum age"),
        pytest.param([image("old", in_use=True)], [], id="GI-1 none that a container uses"),
        pytest.param([image("old", protected="archive")], [], id="GI-1 none that is protected"),
    ],
)
def test_whose_turn_it_is_when_space_is_short(images: list[Image], expected: list[str]) -> None:
    assert [it.id for it in image_gc.in_turn(images, SIGHTS, limits=LIMITS, now=NOW)] == expected


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        pytest.param(0.0, [], id="GI-1 maximum age 0 is off"),
        pytest.param(5_000.0, ["old", "used-long-ago"], id="GI-1 unused for longer than the maximum"),
        pytest.param(10_000.0, [], id="GI-1 unused for as long as the maximum"),
    ],
)
def test_what_is_too_old_whatever_the_disk(maximum: float, expected: list[str]) -> None:
    limits = Limits(maximum_age=maximum)
    images = [image(name) for name in SIGHTS]
    assert [it.id for it in image_gc.too_old(images, SIGHTS, limits=limits, now=NOW)] == expected


def test_what_is_remembered_of_images() -> None:
    first = image_gc.seen({}, [image("a"), image("b", in_use=True)], now=10.0)
    assert first == {"a": Sight(first=10.0), "b": Sight(first=10.0, used=10.0)}
    second = image_gc.seen(first, [image("b"), image("c")], now=20.0)
    assert second == {"b": Sight(first=10.0, used=10.0), "c": Sight(first=20.0)}


def test_an_image_that_was_seen_before_the_clock_was_set_back_ages_from_then_on() -> None:
    before = {"a": Sight(first=5000.0, used=6000.0), "b": Sight(first=10.0)}
    after = image_gc.seen(before, [image("a"), image("b")], now=20.0)
    assert after == {"a": Sight(first=20.0, used=20.0), "b": Sight(first=10.0)}
    assert image_gc.seen(after, [image("a")], now=30.0) == {"a": Sight(first=20.0, used=20.0)}
