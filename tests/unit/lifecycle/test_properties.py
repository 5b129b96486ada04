"""What must hold for any pod and any history (the simulator checks gates, turns and idempotence on the way)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from minikubelet.api.pod import Container, ContainerRestartRule, Pod, RestartRuleExitCodes
from minikubelet.lifecycle.records import RecordState
from tests.unit.lifecycle.build import PROBE, container, hooks, pod
from tests.unit.lifecycle.simulator import MAKE, Life, World

#: Many histories in one test: on a busy machine they may take longer than a test usually may.
pytestmark = pytest.mark.timeout(90)

GRACE = st.sampled_from([0, 1, 3, 10])
RULE = ContainerRestartRule(action="RestartAllContainers", exit_codes=RestartRuleExitCodes(operator="In", values=(7,)))
#: Times as multiples of a quarter second keep virtual time exact, and make things happen at the same moment often.
TIMES = st.integers(0, 60).map(lambda quarters: quarters / 4)

lives = st.builds(
    Life,
    runs=st.none() | TIMES.map(lambda t: t + 0.25),
    code=st.sampled_from([0, 0, 1, 7]),
    on_term=st.none() | st.sampled_from([0.0, 0.5, 2.0, 5.0]),
    term_code=st.sampled_from([0, 1, 143]),
    up_after=st.none() | st.sampled_from([0.0, 1.0, 4.0]),
    startup_fails_at=st.none() | st.none() | st.sampled_from([1.0, 3.0]),
    dies_at=st.none() | st.none() | TIMES,
    post_start=st.none() | st.sampled_from([0.0, 1.0, 5.0]),
    post_start_fails=st.sampled_from([False, False, True]),
    pre_stop=st.none() | st.sampled_from([0.0, 1.0, 4.0]),
    pulls=st.sampled_from([True, True, True, True, False]),
)


@st.composite
def containers(draw: st.DrawFn, name: str, kind: str) -> Container:
    fields: dict[str, Any] = {}
    policies: dict[str, list[str | None]] = {
        "sidecar": ["Always"],
        "init": [None, None, "OnFailure", "Never"],
        "main": [None, None, None, "Always", "OnFailure", "Never"],
    }
    fields["restart_policy"] = draw(st.sampled_from(policies[kind]))
    if fields["restart_policy"] is not None and draw(st.integers(0, 9)) == 0:
        fields["restart_policy_rules"] = (RULE,)
    if kind != "init":
        grace = draw(st.none() | st.sampled_from([1, 4]))
        probe = msgspec.structs.replace(PROBE, termination_grace_period_seconds=grace)
        fields["startup_probe"] = probe if draw(st.booleans()) else None
        fields["liveness_probe"] = probe if draw(st.booleans()) else None
        fields["lifecycle"] = hooks(post_start=draw(st.booleans()), pre_stop=draw(st.booleans()))
    return container(name, **fields)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = draw(st.lists(st.sampled_from(["init", "sidecar"]), max_size=4))
    entries = tuple(draw(containers(f"{kind[0]}{index}", kind)) for index, kind in enumerate(kinds))
    mains = tuple(draw(containers(f"m{index}", "main")) for index in range(draw(st.integers(1, 2))))
    return pod(
        *mains,
        init=entries,
        policy=draw(st.sampled_from(["Always", "OnFailure", "Never"])),
        termination_grace_period_seconds=draw(GRACE),
        active_deadline_seconds=draw(st.none() | st.none() | st.none() | st.sampled_from([5, 20])),
    )


@dataclass(frozen=True)
class Blow:
    """Something from outside, after a while."""

    after: float
    what: str
    which: int = 0


HAPPENINGS = ["crash", "sandbox", "reboot", "daemon", "edit", "clock"]
#: Seconds by which somebody sets the clock.
LEAPS = [-7200.0, -86400.0, -8.0, -1.0, 20.0, 7200.0]


def blows(kinds: list[str]) -> st.SearchStrategy[list[Blow]]:
    one = st.builds(Blow, after=TIMES, what=st.sampled_from(kinds), which=st.integers(0, 5))
    return st.lists(one, max_size=3)


def strike(world: World, blow: Blow) -> None:
    names = sorted({process.record.name for process in world.processes.values()})
    if blow.what == "crash" and names:
        world.crash(names[blow.which % len(names)])
    elif blow.what == "sandbox":
        world.sandbox_dies()
    elif blow.what in ("reboot", "daemon", "amnesia"):
        world.kill_daemon()
        if blow.what == "reboot":
            world.sandbox_dies(containers_too=True)
        world.run(blow.which)
        world.start_daemon(keep_memory=blow.what != "amnesia")
    elif blow.what == "edit":
        world.edit(edited(world.pod, blow.which))
    elif blow.what == "clock":
        world.set_clock(LEAPS[blow.which])


def edited(subject: Pod, which: int) -> Pod:
    count = len(subject.spec.init_containers) + len(subject.spec.containers)
    position = which % count

    def new(entry: Container, index: int) -> Container:
        return msgspec.structs.replace(entry, image=f"{entry.image}x") if index == position else entry

    inits = tuple(new(entry, index) for index, entry in enumerate(subject.spec.init_containers))
    mains = tuple(new(entry, index + len(inits)) for index, entry in enumerate(subject.spec.containers))
    return msgspec.structs.replace(
        subject, spec=msgspec.structs.replace(subject.spec, init_containers=inits, containers=mains)
    )


@dataclass(frozen=True)
class History:
    """A pod, how its containers live, and what befalls them."""

    pod: Pod
    lives: dict[str, list[Life]]
    blows: list[Blow]
    answer_after: float

    def play(self) -> World:
        world = World(self.pod, self.lives, answer_after=self.answer_after)
        try:
            for blow in self.blows:
                world.run(blow.after)
                strike(world, blow)
        finally:
            for entry in world.journal:
                note(f"{entry.at:8.3f} {entry.name} {entry.what}")
        return world


@st.composite
def histories(draw: st.DrawFn, *, amnesia: bool = True) -> History:
    """`amnesia`: the daemon's memory may be lost."""
    subject = draw(pods())
    names = [c.name for c in (*subject.spec.init_containers, *subject.spec.containers)]
    scripts = {name: draw(st.lists(lives, min_size=1, max_size=3)) for name in names}
    kinds = [*HAPPENINGS, "amnesia"] if amnesia else HAPPENINGS
    return History(subject, scripts, draw(blows(kinds)), draw(st.sampled_from([0.0, 0.25])))


#: No shrinking: it replays for minutes, and the journal that a failure prints says enough.
COMMON = settings(
    max_examples=30,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@COMMON
@given(histories())
def test_any_history_keeps_the_rules(history: History) -> None:
    """Gates, turns, no double start, idempotence, a next step: checked by the simulator at every decision."""
    world = history.play()
    world.run(60)


@COMMON
@given(histories(), TIMES)
def test_a_removed_pod_is_gone_within_its_grace_and_two_seconds(history: History, after: float) -> None:
    world = history.play()
    world.run(after)
    world.remove()
    grace = max(world.pod.spec.termination_grace_period_seconds, 1)
    world.run(grace + 2 + 10 * MAKE)
    assert world.finished
    assert not world.records
    assert not world.sandboxes
    assert world.status.phase in ("Succeeded", "Failed")


@COMMON
@given(histories(), TIMES, TIMES, st.sampled_from(LEAPS))
def test_a_clock_that_is_set_during_a_stop_does_not_make_it_endless(
    history: History, after: float, during: float, leap: float
) -> None:
    world = history.play()
    world.run(after)
    world.remove()
    world.run(during)
    world.set_clock(leap)
    grace = max(world.pod.spec.termination_grace_period_seconds, 1)
    world.run(2 * grace + 2 + 10 * MAKE)
    assert world.finished


@COMMON
@given(
    st.lists(st.builds(Life, runs=TIMES.map(lambda t: t + 0.25), code=st.just(1)), min_size=1, max_size=5),
    st.integers(0, 4000).map(lambda quarters: quarters / 4),
    st.floats(0.25, 1e6),
    st.booleans(),
)
def test_a_clock_that_is_set_back_prolongs_no_back_off(
    lives: list[Life], before: float, back: float, daemon_dies: bool
) -> None:
    """Whoever waits starts after the wait that it is in once more, at the most, from the look at the clock (30 s)."""
    world = World(pod("m"), {"m": lives})
    world.run(before)
    delay = max((entry.delay for entry in world.memory.backoff.values()), default=0.0)
    running = any(process.record.state is RecordState.RUNNING for process in world.processes.values())
    moment = world.seconds
    world.set_clock(-back)
    if daemon_dies:
        world.kill_daemon()
        world.start_daemon()
    world.run(delay + 30 + MAKE)
    assert running or any(at > moment for at in world.times("m", "start"))
    moment = world.seconds
    world.run(1000)  # and what comes later waits for no more than it should
    assert any(at > moment for at in world.times("m", "start"))


@COMMON
@given(histories(amnesia=False))
def test_a_final_phase_is_final_and_nothing_starts_after_it(history: History) -> None:
    world = history.play()
    world.run(100)
    ends = [index for index, phase in enumerate(world.phases) if phase in ("Succeeded", "Failed")]
    assert ends in ([], [len(world.phases) - 1])


@COMMON
@given(histories(amnesia=False))
def test_restart_counts_never_fall(history: History) -> None:
    world = history.play()
    world.run(40)
    counts: dict[str, int] = {}
    for _, status in world.statuses:
        for found in (*status.init_container_statuses, *status.container_statuses):
            assert found.restart_count >= counts.get(found.name, 0)
            counts[found.name] = found.restart_count
