"""Upstream's scenarios of LC 13, played in virtual time: removal of the manifest, and edits of an image."""

from __future__ import annotations

import msgspec
import pytest

from minikubelet.api.pod import Pod
from tests.unit.lifecycle.build import PROBE, container, hooks, pod, sidecar, status_of
from tests.unit.lifecycle.simulator import Life, World

POLICIES = pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
RETRYING = pytest.mark.parametrize("policy", ["Always", "OnFailure"])
THREE = tuple(sidecar(name) for name in ("s1", "s2", "s3"))
SLOW = [Life(on_term=20)]
BRIEF = [Life(1)]


def removed(subject: Pod, lives: dict[str, list[Life]], after: float = 10.0) -> World:
    world = World(subject, lives).run(after)
    world.remove()
    world.run()
    assert world.finished
    assert not world.records
    assert not world.sandboxes
    return world


def code(world: World, name: str) -> int:
    end = status_of(world.status, name).state.terminated
    assert end is not None
    return end.exit_code


@pytest.mark.parametrize("endless", [False, True])
def test_t08_a_deaf_main_is_gone_within_its_grace(*, endless: bool) -> None:
    main = container("m", lifecycle=hooks(pre_stop=endless))
    world = removed(pod(main), {"m": [Life(on_term=None, pre_stop=None)]})
    assert world.first("m", "exit 137") == 10 + (32 if endless else 30)


def test_t32_removal_during_init_starts_no_sidecar() -> None:
    subject = pod("m", init=("i", *THREE), policy="Never", termination_grace_period_seconds=3)
    world = removed(subject, {"i": [Life(300, on_term=None)]})
    assert world.order("start") == ["i"]
    assert world.first("i", "exit") == 13
    assert world.phases[-1] == "Failed"


def test_t33_removal_while_a_sidecar_never_starts_up() -> None:
    entries = (sidecar("s1"), sidecar("s2", startup_probe=PROBE), sidecar("s3"))
    subject = pod("m", init=entries, policy="Never", termination_grace_period_seconds=180)
    world = removed(subject, {"s2": [Life(up_after=None)]})
    assert world.last("s1", "exit") < 12
    assert world.order("term") == ["s2", "s1"]


def test_t34_a_sidecar_s_exit_code_does_not_fail_the_pod() -> None:
    world = removed(pod("m", init=THREE, policy="Never"), {"s2": [Life(term_code=1)]})
    assert world.phases[-1] == "Succeeded"
    end = status_of(world.status, "s2").state.terminated
    assert end is not None
    assert (end.exit_code, end.reason) == (1, "Error")


def test_t35_a_failing_hook_changes_nothing() -> None:
    entries = (sidecar("s1"), sidecar("s2", lifecycle=hooks(pre_stop=True)), sidecar("s3"))
    world = removed(pod("m", init=entries, policy="Never"), {"s2": [Life(pre_stop=1)]})
    assert world.phases[-1] == "Succeeded"
    assert [code(world, name) for name in ("s1", "s2", "s3")] == [0, 0, 0]


def test_t36_all_but_one_too_slow() -> None:
    subject = pod("m", init=THREE, policy="Never", termination_grace_period_seconds=5)
    world = removed(subject, {"m": SLOW, "s1": SLOW, "s2": [Life(on_term=1)], "s3": SLOW})
    assert world.phases[-1] == "Failed"
    assert [code(world, name) for name in ("m", "s1", "s2", "s3")] == [137, 137, 0, 137]
    assert max(world.last(name, "exit") for name in ("m", "s1", "s3")) == 10 + 5 + 2


def test_t37_one_sidecar_too_slow() -> None:
    subject = pod("m", init=THREE, policy="Never", termination_grace_period_seconds=5)
    world = removed(subject, {"s2": SLOW})
    assert world.phases[-1] == "Succeeded"
    assert [code(world, name) for name in ("m", "s1", "s2", "s3")] == [0, 0, 137, 0]


def test_t38_the_main_s_hook_uses_all_the_grace() -> None:
    main = container("m", lifecycle=hooks(pre_stop=True))
    subject = pod(main, init=THREE, policy="Never", termination_grace_period_seconds=5)
    world = removed(subject, {"m": [Life(pre_stop=20, on_term=20)], "s2": SLOW})
    assert world.phases[-1] == "Failed"
    assert [code(world, name) for name in ("m", "s1", "s2", "s3")] == [137, 0, 137, 0]
    assert world.first("m", "term") == 15
    assert {world.first(name, "term") for name in ("s1", "s2", "s3")} == {15}


def test_t39_a_sidecar_s_hook_uses_all_the_grace() -> None:
    entries = (sidecar("s1"), sidecar("s2", lifecycle=hooks(pre_stop=True)), sidecar("s3"))
    subject = pod("m", init=entries, policy="Never", termination_grace_period_seconds=5)
    quick = [Life(on_term=1)]
    world = removed(subject, {"s1": quick, "s3": quick, "s2": [Life(pre_stop=30, on_term=20)]})
    assert world.phases[-1] == "Succeeded"
    assert [code(world, name) for name in ("m", "s1", "s2", "s3")] == [0, 0, 137, 0]


# ---- edits of an image, with a fixed uid (LC 12.5) ----------------------------------
def reimaged(subject: Pod, name: str) -> Pod:
    def entry(c: object) -> object:
        return msgspec.structs.replace(c, image="busybox:2") if getattr(c, "name", "") == name else c  # type: ignore[type-var]

    spec = msgspec.structs.replace(
        subject.spec,
        containers=tuple(entry(c) for c in subject.spec.containers),
        init_containers=tuple(entry(c) for c in subject.spec.init_containers),
    )
    return msgspec.structs.replace(subject, spec=spec)


def image(world: World, name: str) -> str:
    return status_of(world.status, name).image


@POLICIES
def test_u1_only_the_edited_main_restarts(policy: str) -> None:
    world = World(pod("m1", "m2", policy=policy), {"m1": [Life(term_code=1)]}).run(10)
    world.edit(reimaged(world.pod, "m1"))
    world.run(10)
    assert image(world, "m1") == "busybox:2"
    assert (len(world.times("m1", "start")), len(world.times("m2", "start"))) == (2, 1)
    assert world.last("m1", "start") < 10.2  # no back-off: a new key
    assert world.phases == ["Pending", "Running"]


@POLICIES
def test_u2_a_main_edited_during_init_starts_once(policy: str) -> None:
    world = World(pod("m1", init=("i1",), policy=policy), {"i1": [Life(20)]}).run(10)
    world.edit(reimaged(world.pod, "m1"))
    world.run(30)
    assert len(world.times("m1", "start")) == 1
    assert image(world, "m1") == "busybox:2"


@RETRYING
@pytest.mark.parametrize("life", [Life(startup_fails_at=2), Life(dies_at=2)])
def test_u3_a_main_edited_after_a_probe_failure_comes_back_new(policy: str, life: Life) -> None:
    main = container("m1", startup_probe=PROBE, liveness_probe=PROBE)
    world = World(pod(main, policy=policy), {"m1": [life] * 3 + [Life()]}).run(11)
    world.edit(reimaged(world.pod, "m1"))
    world.run(200)
    assert image(world, "m1") == "busybox:2"
    assert status_of(world.status, "m1").state.running is not None


@POLICIES
@pytest.mark.parametrize("name", ["m1", "s1", "i1"], ids=["U4", "U9", "U5"])
def test_an_edit_while_the_pod_is_stopped_is_ignored(policy: str, name: str) -> None:
    subject = pod("m1", init=("i1", sidecar("s1"), sidecar("s2")), policy=policy)
    world = World(subject, {"m1": [Life(on_term=5)], "i1": BRIEF, "s2": [Life(on_term=2)]}).run(10)
    world.remove()
    world.run(1)
    world.edit(reimaged(world.pod, name))
    world.run()
    assert len(world.times(name, "start")) == 1
    assert world.order("term") == ["m1", "s2", "s1"]


@pytest.mark.parametrize("when", [0.5, 10.0])
def test_u5_an_edited_init_container_never_restarts(when: float) -> None:
    world = World(pod("m1", init=("i1",)), {"i1": BRIEF}).run(when)
    world.edit(reimaged(world.pod, "i1"))
    world.run(30)
    assert world.order("start") == ["i1", "m1"]


@POLICIES
def test_u6_a_sidecar_edited_during_init(policy: str) -> None:
    entries = ("i1", sidecar("s1"), "i2", sidecar("s2"))
    world = World(pod("m1", init=entries, policy=policy), {"i1": BRIEF, "i2": [Life(60)]}).run(10)
    world.edit(reimaged(world.pod, "s1"))
    world.run(20)
    assert world.order("start") == ["i1", "s1", "i2", "s1"]
    assert image(world, "s1") == "busybox:2"


@POLICIES
def test_u7_only_the_edited_sidecar_restarts(policy: str) -> None:
    world = World(pod("m1", init=(sidecar("s1"), sidecar("s2")), policy=policy)).run(10)
    world.edit(reimaged(world.pod, "s1"))
    world.run(20)
    assert world.order("start") == ["s1", "s2", "m1", "s1"]
    assert image(world, "s1") == "busybox:2"


@POLICIES
@pytest.mark.parametrize("life", [Life(startup_fails_at=2), Life(dies_at=2)])
def test_u8_a_sidecar_edited_after_a_probe_failure_comes_back_new(policy: str, life: Life) -> None:
    side = sidecar("s1", startup_probe=PROBE, liveness_probe=PROBE)
    world = World(pod("m1", init=(side, "i2"), policy=policy), {"s1": [life] * 3 + [Life()], "i2": BRIEF}).run(8)
    world.edit(reimaged(world.pod, "s1"))
    world.run(200)
    assert image(world, "s1") == "busybox:2"
    assert world.first("s1", "start") < world.first("i2", "start") < world.first("m1", "start")


@pytest.mark.parametrize("reboot", [False, True])
def test_u10_a_sidecar_edited_while_the_daemon_is_down(*, reboot: bool) -> None:
    world = World(pod("m1", init=("i1", sidecar("s1"))), {"i1": BRIEF}).run(10)
    world.kill_daemon()
    if reboot:
        world.sandbox_dies(containers_too=True)
    world.pod = reimaged(world.pod, "s1")
    world.start_daemon()
    world.run(60)
    assert image(world, "s1") == "busybox:2"
    assert world.order("start") == ["i1", "s1", "m1", *(["i1", "s1", "m1"] if reboot else ["s1"])]
