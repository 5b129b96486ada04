"""LC 7 and 6.2: the arithmetic of back-off."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.pod import ResourceRequirements
from minikubelet.lifecycle.backoff import (
    CRASH,
    BackoffPolicy,
    advance,
    check,
    crash_key,
    go_duration,
    image_key,
    prune,
)
from minikubelet.lifecycle.memory import BackoffEntry
from tests.unit.lifecycle.build import container, pod, status_of
from tests.unit.lifecycle.simulator import Life, World


def test_lc_7_1_image_resources_and_uid_make_the_key() -> None:
    base, main = pod(), container("m")
    other_uid = msgspec.structs.replace(base, metadata=msgspec.structs.replace(base.metadata, uid="u2"))
    more = ResourceRequirements(limits={"cpu": "1"})
    keys = {
        crash_key(base, main),
        crash_key(base, container("m", image="busybox:2")),
        crash_key(base, container("m", resources=more)),
        crash_key(base, container("n")),
        crash_key(other_uid, main),
        image_key(base, "busybox:1.36"),
        image_key(other_uid, "busybox:1.36"),
    }
    assert len(keys) == 7
    assert crash_key(base, main) == crash_key(base, container("m", command=("sh",)))


@pytest.mark.parametrize(
    ("entry", "failed_at", "now", "due"),
    [
        (None, 100.0, 100.0, None),  # LC 7.2
        (BackoffEntry(delay=10, last_update=90), 100.0, 100.0, 110.0),  # LC 7.3
        (BackoffEntry(delay=10, last_update=90), 100.0, 109.9, 110.0),
        (BackoffEntry(delay=10, last_update=90), 100.0, 110.0, None),
        (BackoffEntry(delay=300, last_update=0), 600.0, 601.0, 900.0),
        (BackoffEntry(delay=300, last_update=0), 600.5, 601.0, None),  # it ran for more than 600 s
    ],
)
def test_lc_7_3_when_a_start_is_held_back(
    entry: BackoffEntry | None, failed_at: float, now: float, due: float | None
) -> None:
    assert check(entry, failed_at=failed_at, now=now) == due


def test_lc_7_4_the_delay_doubles_to_its_maximum_and_begins_again_after_a_long_run() -> None:
    entry, delays = None, []
    for step in range(7):
        entry = advance(entry, failed_at=step, now=step)
        delays.append(entry.delay)
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    assert advance(entry, failed_at=606, now=610).delay == 300
    assert advance(entry, failed_at=607, now=610) == BackoffEntry(delay=10, last_update=610)


def test_lc_7_5_the_restarts_of_a_container_that_exits_at_once() -> None:
    world = World(pod("m"), {"m": [Life(0, code=1)]}).run(1300)
    exits, starts = world.times("m", "exit"), world.times("m", "start")
    waits = [start - exit_ for exit_, start in zip(exits, starts[1:], strict=False)]
    assert waits[:8] == [0.125, *(delay + 0.125 for delay in (10, 20, 40, 80, 160, 300, 300))]


def test_lc_7_5_a_run_of_more_than_600_s_resets() -> None:
    lives = [Life(0, code=1), Life(0, code=1), Life(0, code=1), Life(700, code=1), Life()]
    world = World(pod("m"), {"m": lives}).run(800)
    assert world.last("m", "start") - world.last("m", "exit") == 0.125


def test_lc_7_5_keys_that_can_hold_nothing_back_are_dropped() -> None:
    entries = {"old": BackoffEntry(delay=10, last_update=0), "new": BackoffEntry(delay=10, last_update=50)}
    assert set(prune(entries, now=940)) == {"new"}


def test_lc_7_6_the_exit_code_does_not_matter() -> None:
    world = World(pod("m"), {"m": [Life(1)]}).run(5)
    assert status_of(world.status, "m").state.waiting is not None
    assert len(world.times("m", "start")) == 2


def test_lc_7_6_a_new_sandbox_does_not_reset() -> None:
    world = World(pod("m"), {"m": [Life(0, code=1), Life(0, code=1), Life()]}).run(2)
    world.sandbox_dies()
    world.run(60)
    starts = world.times("m", "start")
    assert starts[2] - world.times("m", "exit")[1] == 10.125
    assert world.first("sandbox", "made 1") < starts[2]


def test_lc_7_8_the_maximum_can_be_set_and_is_then_also_the_first_delay() -> None:
    quick = BackoffPolicy(initial=10, maximum=4)
    entry = advance(None, failed_at=0, now=0, policy=quick)
    assert entry.delay == 4
    assert advance(entry, failed_at=5, now=5, policy=quick).delay == 4


def test_readme_5_back_off_survives_a_daemon_restart() -> None:
    world = World(pod("m"), {"m": [Life(0, code=1)]}).run(15)
    world.kill_daemon()
    world.start_daemon()
    world.run(30)
    starts, exits = world.times("m", "start"), world.times("m", "exit")
    assert starts[3] - exits[2] == 20.125


@given(st.lists(st.floats(0, 2000), max_size=20))
def test_a_delay_never_leaves_its_bounds(pauses: list[float]) -> None:
    now, entry = 0.0, None
    for pause in pauses:
        now += pause
        entry = advance(entry, failed_at=now, now=now)
        assert CRASH.initial <= entry.delay <= CRASH.maximum
        due = check(entry, failed_at=now, now=now)
        assert due is not None
        assert check(entry, failed_at=now, now=due) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s"), (3725.9, "1h2m5s")]
)
def test_lc_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
