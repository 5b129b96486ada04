"""What is left of a removed pod: exit codes, phase, and the time it takes if containers do not obey (LC 10.4, 11.6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    Json,
    container,
    pre_stop,
    script,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@scenario()
def grace_runs_out(r: Run) -> None:
    """LC 10.4: when main eats the grace period, everything is still told to stop and then killed soon after."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            terminationGracePeriodSeconds=4,
            init=[sidecar("side1", script("side1")), sidecar("side2", script("side2", on_term=None))],
            main=[container("main", script("main", on_term=None))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    removed = r.remove()
    gone = r.until_gone()
    r.ordered("main term", "side2 term")
    r.check(r.events("side1", "term"), "side1 was told to stop")
    r.check(r.first("side2", "term") - removed >= 3, "sidecars are told only when main's grace is used up")
    r.check(4 <= gone - removed <= 14, f"gone {gone - removed:.1f} s after the removal")
    r.measure("remove_to_gone", gone - removed)


#: Whether main hears SIGTERM only after a hook that never ends.
@table({"ignores-term": {}, "endless-hook": pre_stop("main", "j hook; sleep 1000")})
def deaf_main(r: Run, lifecycle: Json) -> None:
    """LC T08: a main that does not end, or whose preStop does not, is gone within its grace and a little."""
    hook = {"lifecycle": lifecycle} if lifecycle else {}
    r.apply(r.pod(main=[container("main", script("main", on_term=None), **hook)], terminationGracePeriodSeconds=3))
    r.until_up("main")
    removed = r.remove()
    gone = r.until_gone()
    r.check(3 - 0.1 <= gone - removed <= 3 + 2 + 10, f"gone {gone - removed} s after the removal")
    r.check(bool(lifecycle) == bool(r.events("main", "hook")), "the hook ran if there is one")


@scenario()
def deaf_init_container(r: Run) -> None:
    """LC T32: removed while the first init container runs, which ignores SIGTERM: gone by the grace, nothing starts."""
    names = ["side1", "side2", "side3"]
    r.apply(
        r.pod(
            init=[container("init", script("init", on_term=None)), *(sidecar(n, script(n)) for n in names)],
            main=[container("main", script("main"))],
            terminationGracePeriodSeconds=3,
        )
    )
    r.until_event("init", "started", 60)
    removed = r.remove()
    gone = r.until_gone()
    r.check(3 - 0.1 <= gone - removed <= 3 + 2 + 10, f"gone {gone - removed} s after the removal")
    for name in (*names, "main"):
        r.never(name, "starting")


@dataclasses.dataclass(frozen=True)
class Ending:
    """`slow`: seconds from SIGTERM to exit; `killed`: who is ended by SIGKILL; `codes`: own exit codes."""

    phase: str
    killed: tuple[str, ...] = ()
    grace: int = 20
    slow: Mapping[str, float] = dataclasses.field(default_factory=dict)
    hooks: Mapping[str, str] = dataclasses.field(default_factory=dict)
    codes: Mapping[str, int] = dataclasses.field(default_factory=dict)


ENDINGS = {
    "t34": Ending("Succeeded", codes={"side2": 1}),
    "t35": Ending("Succeeded", hooks={"side2": "exit 1"}),
    "t36": Ending(
        "Failed",
        killed=("main", "side1", "side3"),
        grace=3,
        slow={"main": 20, "side1": 20, "side3": 20, "side2": 0.5},
    ),
    "t37": Ending("Succeeded", killed=("side2",), grace=3, slow={"side2": 20}),
    "t38": Ending(
        "Failed",
        killed=("main", "side2"),
        grace=3,
        slow={"main": 20, "side2": 20},
        hooks={"main": "sleep 20"},
    ),
    # LC 10.4: the last sidecar is deaf.
    "last-deaf": Ending("Succeeded", killed=("side3",), grace=3, slow={"side3": 20}),
    # LC 10.4: whatever is deaf is killed at the grace, or 2 s after it.
    "all-deaf": Ending(
        "Failed",
        killed=("main", "side1", "side2", "side3"),
        grace=3,
        slow={"main": 20, "side1": 20, "side2": 20, "side3": 20},
    ),
    "t39": Ending(
        "Succeeded",
        killed=("side2",),
        grace=3,
        slow={"side1": 0.3, "side2": 20, "side3": 0.3},
        hooks={"side2": "sleep 30"},
    ),
}


@table(ENDINGS, beyond="a removed pod vanishes from its /pods")
def ends_as(r: Run, row: Ending) -> None:
    """LC T34 to T39, 10.4, 11.6: codes and phase of a removed pod, with hooks and containers that overrun the grace."""

    def made(name: str) -> Json:
        hook = {"lifecycle": pre_stop(name, row.hooks[name])} if name in row.hooks else {}
        command = script(name, on_term=row.slow.get(name, 0), term_code=row.codes.get(name, 0))
        make = container if name == "main" else sidecar
        return make(name, command, **hook)

    names = ["side1", "side2", "side3", "main"]
    r.apply(r.pod(init=[made(n) for n in names[:3]], main=[made("main")], terminationGracePeriodSeconds=row.grace))
    r.until_up("main")
    removed = r.remove()
    gone = r.until_gone()
    status = r.last_status()
    for name in names:
        code = 137 if name in row.killed else row.codes.get(name, 0)
        r.check(r.ended(name, status) == (code, "Error" if code else "Completed"), f"{name} ended with {code}")
        r.check(bool(r.events(name, "exiting")) is (name not in row.killed), f"{name} was killed if it overran")
    r.check(status["phase"] == row.phase, f"the phase is {row.phase}")
    r.check(gone - removed <= row.grace + 2 + 10, f"gone {gone - removed} s after the removal")
    if row.killed:
        r.check(gone - removed >= row.grace - 0.1, f"the grace was used, {gone - removed} s")
    if not row.killed:
        r.ordered("main exiting", "side3 term", "side3 exiting", "side2 term", "side2 exiting", "side1 term")


@scenario(beyond="it only waits for the direct successor (LC 10.3)")
def order_across_a_gap(r: Run) -> None:
    """README 6: a sidecar waits for all later ones, also when one in between is down."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[
                sidecar("side1", script("side1")),
                sidecar("side2", script("side2", until="crash", code=1)),
                sidecar("side3", script("side3", on_term=2)),
            ],
            main=[container("main", script("main"))],
        )
    )
    r.until_up("main")
    r.release("crash")
    r.until_event("side2", "exiting", nth=2)
    r.until("back-off", lambda: r.waiting("side2")["reason"] == "CrashLoopBackOff")
    r.remove()
    r.until_gone()
    r.ordered("main exiting", "side3 term", "side3 exiting", "side1 term")


@scenario(beyond="it ends both at once (LC 10.3)")
def init_container_ends_before_sidecars(r: Run) -> None:
    """README 6: of a pod removed during its initialisation the init container ends first, then the sidecars."""
    r.apply(
        r.pod(
            init=[sidecar("side", script("side")), container("init", script("init", on_term=2))],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("init", "started", 60)
    r.remove()
    r.until_gone()
    r.ordered("init term", "init exiting", "side term", "side exiting")
    r.never("main", "starting")
