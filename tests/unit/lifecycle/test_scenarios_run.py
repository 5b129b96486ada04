"""Upstream's scenarios of LC 13, in virtual time: init sequences, restarts, completion, daemon and node restarts."""

from __future__ import annotations

import pytest

from tests.unit.lifecycle.build import PROBE, condition_of, container, hooks, pod, sidecar, status_of
from tests.unit.lifecycle.simulator import Life, World

POLICIES = pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
ENDING = pytest.mark.parametrize("policy", ["OnFailure", "Never"])
RETRYING = pytest.mark.parametrize("policy", ["Always", "OnFailure"])
BRIEF = [Life(1)]


def test_t01_init_containers_run_one_after_the_other_then_the_main() -> None:
    lives = dict.fromkeys(("i1", "i2", "i3", "m"), BRIEF)
    world = World(pod("m", init=("i1", "i2", "i3"), policy="Never"), lives).run()
    assert [(e.name, e.what) for e in world.journal if e.name != "sandbox"] == [
        (name, what) for name in ("i1", "i2", "i3", "m") for what in ("start", "exit 0")
    ]
    assert world.phases == ["Pending", "Running", "Succeeded"]


def test_t02_a_failed_init_container_fails_the_pod() -> None:
    world = World(pod("m", init=("i1", "i2"), policy="Never"), {"i1": [Life(1, code=1)]}).run()
    assert world.phases == ["Pending", "Failed"]
    assert world.never("i2", "start")
    assert world.never("m", "start")


def test_t03_init_is_over_before_the_main_s_post_start_hook() -> None:
    world = World(pod(container("m", lifecycle=hooks(post_start=True)), init=("i1",)), {"i1": BRIEF}).run()
    assert world.first("i1", "exit") < world.first("m", "postStart")


def test_t04_a_failing_main_is_restarted() -> None:
    world = World(pod("m"), {"m": [Life(1, code=1)]}).run(100)
    assert status_of(world.status, "m").restart_count >= 3


def test_t05_the_next_main_waits_for_the_post_start_hook_of_the_one_before() -> None:
    world = World(pod(container("m1", lifecycle=hooks(post_start=True)), "m2"), {"m1": [Life(post_start=5)]}).run()
    assert world.first("m2", "start") > world.first("m1", "postStart-end") >= 5


def test_t06_an_init_container_without_image_keeps_the_pod_pending() -> None:
    world = World(pod("m", init=("i1",), policy="Never"), {"i1": [Life(pulls=False)]}).run(60)
    assert world.phases == ["Pending"]
    assert len(world.times("i1", "unpullable")) == 6
    waiting = {s.state.waiting.reason for _, status in world.statuses if (s := status_of(status, "i1")).state.waiting}
    assert {"ErrImagePull", "ImagePullBackOff"} <= waiting
    assert world.never("m", "start")


def test_t07_init_containers_run_once_whatever_the_main_does() -> None:
    lives = {**dict.fromkeys(("i1", "i2", "i3"), BRIEF), "m": [Life(1, code=1)]}
    world = World(pod("m", init=("i1", "i2", "i3")), lives).run(100)
    assert status_of(world.status, "m").restart_count >= 3
    assert all(len(world.times(name, "start")) == 1 for name in ("i1", "i2", "i3"))


@pytest.mark.parametrize("kind", ["startup", "liveness"], ids=["T09", "T10"])
def test_a_main_that_fails_a_probe_has_its_pre_stop_hook_run_first(kind: str) -> None:
    life = Life(startup_fails_at=3, pre_stop=2) if kind == "startup" else Life(dies_at=3, pre_stop=2)
    main = container("m", lifecycle=hooks(pre_stop=True), **{f"{kind}_probe": PROBE})
    world = World(pod(main, policy="Never"), {"m": [life]}).run()
    assert world.first("m", "preStop") == pytest.approx(world.first("m", "start") + 3)
    assert world.first("m", "term") == pytest.approx(world.first("m", "preStop") + 2)
    assert world.phases[-1] == "Succeeded"  # its exit code alone counts
    assert world.times("m", "start") == world.times("m", "start")[:1]


def test_t11_readiness_goes_on_during_the_pre_stop_hook_of_a_liveness_kill() -> None:
    main = container("m", lifecycle=hooks(pre_stop=True), liveness_probe=PROBE, readiness_probe=PROBE)
    world = World(pod(main, "other"), {"m": [Life(dies_at=3, ready_after=5, pre_stop=10)]}).run(30)
    ready = [at for at, status in world.statuses if status_of(status, "m").ready]
    assert world.first("m", "preStop") < ready[0] < world.first("m", "term")


def test_t12_a_sidecar_is_not_probed_to_death_while_the_main_ends() -> None:
    """LC 8.5."""
    main = container("m", lifecycle=hooks(pre_stop=True))
    lives = {"s": [Life(dies_at=20)], "m": [Life(pre_stop=25)]}
    world = World(pod(main, init=(sidecar("s", liveness_probe=PROBE),)), lives).run(10)
    world.remove()
    world.run()
    assert len(world.times("s", "start")) == 1
    assert world.first("s", "term") >= world.first("m", "exit")


@pytest.mark.parametrize("second", ["i2", "s2"], ids=["T13", "T41"])
def test_after_a_reboot_everything_runs_again_in_order(second: str) -> None:
    entry = sidecar("s2") if second == "s2" else "i2"
    world = World(pod("m", init=("i1", entry, "i3")), {"i1": BRIEF, "i2": BRIEF, "i3": BRIEF}).run(60)
    world.kill_daemon()
    world.sandbox_dies(containers_too=True)
    world.start_daemon()
    world.run(60)
    assert world.order("start") == ["i1", second, "i3", "m"] * 2
    assert status_of(world.status, "m").restart_count == 1
    assert world.phases[-1] == "Running"
    assert "Failed" not in world.phases


@pytest.mark.parametrize("keep_memory", [True, False])
@pytest.mark.parametrize("records", [True, False])
def test_t14_no_init_container_runs_again_after_a_daemon_restart(*, keep_memory: bool, records: bool) -> None:
    world = World(pod("m", init=("i1", "i2", "i3")), dict.fromkeys(("i1", "i2", "i3"), BRIEF)).run(60)
    world.kill_daemon()
    if not records:
        world.records = [r for r in world.records if r.name == "m"]
    world.start_daemon(keep_memory=keep_memory)
    world.run(60)
    assert world.order("start") == ["i1", "i2", "i3", "m"]
    for name in ("i1", "i2", "i3"):
        state = status_of(world.status, name).state.terminated
        assert state is not None
        assert (state.exit_code, state.reason) == (0, "Completed")


@pytest.mark.parametrize("keep_memory", [True, False])
@pytest.mark.parametrize("records", [True, False])
def test_t15_a_daemon_restart_during_the_last_init_container(*, keep_memory: bool, records: bool) -> None:
    world = World(pod("m", init=("i1", "i2", "i3")), {"i1": BRIEF, "i2": BRIEF, "i3": [Life(30)]}).run(10)
    world.kill_daemon()
    if not records:
        world.records = [r for r in world.records if r.name == "i3"]
    world.start_daemon(keep_memory=keep_memory)
    world.run(60)
    assert world.order("start") == ["i1", "i2", "i3", "m"]


def test_t16_sidecars_and_init_containers_start_in_spec_order() -> None:
    lives = {**dict.fromkeys(("i1", "i2", "i3"), BRIEF), "m": [Life(5)]}
    world = World(pod("m", init=("i1", sidecar("s1"), "i2", sidecar("s2"), "i3"), policy="Never"), lives).run()
    assert world.order("start") == ["i1", "s1", "i2", "s2", "i3", "m"]
    assert world.first("i1", "exit") < world.first("s1", "start")
    assert world.order("exit")[3:] == ["m", "s2", "s1"]
    assert world.order("term") == ["s2", "s1"]
    assert world.phases[-1] == "Succeeded"


@ENDING
def test_t17_a_sidecar_does_not_hold_up_completion(policy: str) -> None:
    world = World(pod("m", init=(sidecar("s"),), policy=policy), {"m": [Life(5)]}).run()
    assert world.phases[-1] == "Succeeded"
    assert len(world.times("s", "start")) == 1


def test_t18_restarts_of_the_main_leave_the_sidecar_alone() -> None:
    world = World(pod("m", init=(sidecar("s"),)), {"m": [Life(1, code=1)]}).run(100)
    assert len(world.times("m", "start")) > 3
    assert len(world.times("s", "start")) == 1


@POLICIES
def test_t19_a_sidecar_without_image_blocks_what_follows(policy: str) -> None:
    world = World(pod("m", init=(sidecar("s"),), policy=policy), {"s": [Life(pulls=False)]}).run(60)
    assert world.phases == ["Pending"]
    assert world.never("m", "start")


@POLICIES
@pytest.mark.parametrize("code", [0, 1], ids=["T20", "T21"])
def test_a_sidecar_is_restarted_before_and_after_the_main_started(policy: str, code: int) -> None:
    life = Life(5, code=code)
    entries = (sidecar("s", startup_probe=PROBE), "i")
    lives = {"s": [Life(5, code=code, up_after=None), life], "m": [Life(60)], "i": [Life(3)]}
    world = World(pod("m", init=entries, policy=policy), lives).run(100)
    starts = world.times("s", "start")
    assert sum(at < world.first("m", "start") for at in starts) >= 2
    assert sum(at > world.first("m", "start") for at in starts) >= 1
    assert len(world.times("i", "start")) == 1
    if policy != "Always":
        assert world.phases[-1] == "Succeeded"


def test_t22_an_init_container_fails_before_the_sidecar_could_start() -> None:
    world = World(pod("m", init=("i", sidecar("s")), policy="Never"), {"i": [Life(1, code=1)]}).run()
    assert world.phases[-1] == "Failed"
    end = status_of(world.status, "i").state.terminated
    assert end is not None
    assert end.exit_code == 1
    assert world.never("s", "start")
    assert world.never("m", "start")


@RETRYING
@pytest.mark.parametrize("first", ["i", "s"], ids=["T23", "T25"])
def test_an_init_container_is_retried_for_ever(policy: str, first: str) -> None:
    entries = ("i", sidecar("s")) if first == "i" else (sidecar("s"), "i")
    world = World(pod("m", init=entries, policy=policy), {"i": [Life(1, code=1)]}).run(100)
    assert world.phases == ["Pending"]
    assert status_of(world.status, "i").restart_count > 2
    assert len(world.times("s", "start")) == (0 if first == "i" else 1)
    assert world.never("m", "start")


def test_t24_the_sidecar_is_ended_when_a_later_init_container_fails() -> None:
    world = World(
        pod("m", init=(sidecar("s"), "i"), policy="Never"), {"i": [Life(2, code=1)], "s": [Life(on_term=3)]}
    ).run()
    failed_at = next(at for at, status in world.statuses if status.phase == "Failed")
    assert failed_at == world.first("i", "exit")  # at once, while the sidecar still runs
    assert world.first("s", "term") == world.first("i", "exit")
    assert world.phases[-1] == "Failed"
    assert world.never("m", "start")


def test_t26_what_follows_a_sidecar_waits_for_its_startup_probe() -> None:
    lives = {key: [Life(up_after=10)] for key in ("s1", "s2")}
    entries = tuple(sidecar(name, startup_probe=PROBE) for name in ("s1", "s2"))
    world = World(pod("m", init=entries), lives).run(60)
    assert world.first("s2", "start") == pytest.approx(world.first("s1", "start") + 10, abs=0.2)
    assert world.first("m", "start") == pytest.approx(world.first("s2", "start") + 10, abs=0.2)


def test_t27_a_sidecar_that_fails_its_startup_probe_is_replaced_for_ever() -> None:
    side = sidecar("s", startup_probe=PROBE, lifecycle=hooks(pre_stop=True))
    world = World(pod("m", init=(side,)), {"s": [Life(startup_fails_at=2, pre_stop=1)]}).run(60)
    assert len(world.times("s", "preStop")) >= 3
    assert status_of(world.status, "s").restart_count >= 2
    assert world.phases == ["Pending"]
    assert world.never("m", "start")


def test_t28_a_sidecar_that_fails_its_liveness_probe_leaves_the_main_alone() -> None:
    side = sidecar("s", liveness_probe=PROBE, lifecycle=hooks(pre_stop=True))
    world = World(pod("m", init=(side,)), {"s": [Life(dies_at=2, pre_stop=1)], "m": [Life(15, code=1)]}).run(100)
    assert len(world.times("s", "preStop")) >= 3
    assert status_of(world.status, "s").restart_count >= 2
    assert status_of(world.status, "m").restart_count >= 2


def test_t29_sidecars_end_in_reverse_order_at_completion() -> None:
    entries = tuple(sidecar(name) for name in ("s1", "s2", "s3"))
    lives = {**{key: [Life(on_term=5)] for key in ("s1", "s2", "s3")}, "m": [Life(5)]}
    world = World(pod("m", init=entries, policy="Never"), lives).run()
    assert world.order("exit") == ["m", "s3", "s2", "s1"]
    ends = [status_of(world.status, name).state.terminated for name in ("s1", "s2", "s3")]
    assert all(end is not None and (end.exit_code, end.reason) == (0, "Completed") for end in ends)


def test_t30_endless_hooks_are_cut_off_at_the_end_of_the_grace() -> None:
    entries = tuple(sidecar(name, lifecycle=hooks(pre_stop=True)) for name in ("s1", "s2", "s3"))
    lives = {**{key: [Life(pre_stop=None, on_term=None)] for key in ("s1", "s2", "s3")}, "m": [Life(5)]}
    world = World(pod("m", init=entries, policy="Never"), lives).run()
    began = world.first("m", "exit")
    assert {world.first(name, "preStop") for name in ("s1", "s2", "s3")} == {began}
    assert {world.first(name, "term") for name in ("s1", "s2", "s3")} == {began + 30}
    assert {world.first(name, "exit 137") for name in ("s1", "s2", "s3")} == {began + 32}
    assert world.phases[-1] == "Succeeded"


def test_t31_finite_hooks_run_together_and_the_order_holds() -> None:
    entries = tuple(sidecar(name, lifecycle=hooks(pre_stop=True)) for name in ("s1", "s2", "s3"))
    lives = {**{key: [Life(pre_stop=4)] for key in ("s1", "s2", "s3")}, "m": [Life(5)]}
    world = World(pod("m", init=entries, policy="Never"), lives).run()
    assert {world.first(name, "preStop") for name in ("s1", "s2", "s3")} == {world.first("m", "exit")}
    assert world.order("exit") == ["m", "s3", "s2", "s1"]
    assert world.first("s3", "term") == world.first("m", "exit") + 4


def test_t40_a_sidecar_that_passes_at_its_second_try() -> None:
    lives = {"s": [Life(startup_fails_at=2), Life(up_after=3)]}
    world = World(pod("m", init=(sidecar("s", startup_probe=PROBE),)), lives).run(60)
    assert len(world.times("s", "start")) == 2
    assert world.first("m", "start") == pytest.approx(world.last("s", "start") + 3, abs=0.2)


def test_t42_a_daemon_restart_changes_nothing_of_the_status() -> None:
    probed = {"startup_probe": PROBE, "readiness_probe": PROBE}
    subject = pod(container("m", **probed), container("n", readiness_probe=PROBE), init=(sidecar("s", **probed),))
    world = World(subject, {"m": [Life(up_after=3)], "s": [Life(up_after=3)]}).run(60)
    before = world.status
    assert condition_of(before, "Ready")[0] == "True"
    world.kill_daemon()
    world.run(100)
    world.start_daemon()
    world.run(100)
    assert world.statuses[-1][1] == before


def test_t43_the_main_restarts_after_a_daemon_restart_and_the_sidecar_does_not() -> None:
    world = World(pod("m", init=(sidecar("s", startup_probe=PROBE),)), {"s": [Life(up_after=3)]}).run(60)
    world.kill_daemon()
    world.start_daemon()
    world.crash("m")
    world.run(60)
    assert status_of(world.status, "m").restart_count == 1
    assert status_of(world.status, "s").restart_count == 0
