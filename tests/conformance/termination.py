"""How a removed pod ends: order, hooks, graces, exit codes (LC 10, 11.6, 13: T08 to T12, T32 to T39)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    Json,
    container,
    exec_probe,
    file_probe,
    pre_stop,
    script,
    shell,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@scenario()
def delete_in_reverse_order(r: Run) -> None:
    """LC 10.4: removing the manifest ends main containers first, then the sidecars one by one, last started first."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side1", script("side1", on_term=1)), sidecar("side2", script("side2", on_term=1))],
            main=[container("main1", script("main1", on_term=2)), container("main2", script("main2", on_term=1))],
        )
    )
    r.until_event("main2", "started", 60)
    r.until_event("main1", "started", 60)
    r.until_phase("Running")
    removed = r.remove()
    gone = r.until_gone()
    r.ordered("main1 term", "main1 exiting", "side2 term", "side2 exiting", "side1 term", "side1 exiting")
    r.ordered("main2 exiting", "side2 term")
    r.check(abs(r.first("main1", "term") - r.first("main2", "term")) < 1, "main containers are told together")
    r.measure("remove_to_term", r.first("main1", "term") - removed)
    r.measure("side1_exit_to_gone", gone - r.first("side1", "exiting"))


@scenario()
def pre_stop_of_sidecars_at_once(r: Run) -> None:
    """LC T31, 10.3: at termination every preStop hook starts at once; SIGTERM still goes in reverse order."""

    def hook(name: str) -> Json:
        return {"preStop": {"exec": {"command": shell(name, "j hook-begin; sleep 1; j hook-end")}}}

    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar(n, script(n), lifecycle=hook(n)) for n in ("side1", "side2")],
            main=[container("main", script("main", on_term=3), lifecycle=hook("main"))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    r.remove()
    r.until_gone()
    begins = [r.first(n, "hook-begin") for n in ("side1", "side2", "main")]
    r.check(max(begins) - min(begins) < 1, f"the hooks begin together: {begins}")
    r.ordered("main hook-end", "main term", "main exiting", "side2 term", "side2 exiting", "side1 term")


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


@scenario()
def delete_during_init(r: Run) -> None:
    """A pod removed while it initialises ends without hanging and never starts its main container."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side", on_term=0.5)), container("init", script("init", on_term=0.5))],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("init", "started", 60)
    removed = r.remove()
    gone = r.until_gone(20)
    r.check(r.events("init", "exiting") and r.events("side", "exiting"), "both ended by themselves")
    r.never("main", "starting")
    r.check(gone - removed < 10, "gone within 10 s")


@scenario(beyond="KEP-753 asks for it, v1.36 does not do it")
def sidecar_restarted_while_main_terminates(r: Run) -> None:
    """A sidecar that dies while a main container still terminates is started again."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[
                sidecar(
                    "side",
                    script(
                        "side",
                        body="[ -e /journal/die ] || "
                        "{ while [ ! -e /journal/die ]; do sleep 0.2; done; j dying; exit 1; }",
                    ),
                )
            ],
            main=[container("main", script("main", on_term=8))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    r.remove()
    r.until_event("main", "term")
    (r.dir / "die").touch()
    r.until_event("side", "starting", 10, nth=2)
    r.check(not r.events("main", "exiting"), "main was still terminating")
    r.until_gone()
    r.ordered("main exiting", "side term")


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


@scenario(lasts=12)
def no_restart_while_ending(r: Run) -> None:
    """LC T12, PH 11.48: while main ends a failing liveness probe of a sidecar kills and restarts nothing."""
    side = sidecar(
        "side",
        script("side"),
        livenessProbe=file_probe("live", failureThreshold=1),
        lifecycle=pre_stop("side", "j hook"),
    )
    main = container("main", script("main"), lifecycle=pre_stop("main", "j hook-begin; sleep 4; j hook-end"))
    r.release("live")
    r.apply(r.pod(restartPolicy="Always", init=[side], main=[main]))
    r.until_up("main")
    removed = r.remove()
    r.until_event("main", "hook-begin")
    r.withdraw("live")
    r.until_gone()
    r.ordered("main hook-end", "main term", "main exiting", "side term")
    r.check(r.first("side", "hook") - removed < 3, "the sidecar's hook began at once")
    r.check(r.count("side", "starting") == 1, "the sidecar was not restarted")


@scenario(beyond="a removed pod vanishes from its /pods")
def readiness_while_ending(r: Run) -> None:
    """PH 11.49: while a removed pod ends readiness goes on and shows, liveness does not run any more."""
    main = container(
        "main",
        script("main", on_term=4, term="rm /journal/ready"),
        readinessProbe=file_probe("ready", failureThreshold=1),
        livenessProbe=exec_probe(shell("main", "j live")),
    )
    r.release("ready")
    r.apply(r.pod(main=[main]))
    r.until_ready()
    r.until_event("main", "live")
    r.remove()
    term = r.until_event("main", "term").at
    status = r.until_ready("False", 4)
    r.check("deletionTimestamp" in status and "running" in r.cstatus("main", status)["state"], "it still runs")
    r.until_gone()
    late = [e.at - term for e in r.events("main", "live") if e.at > term + 0.3]
    r.check(not late, f"liveness ran {late} s after SIGTERM")


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


@scenario()
def removed_behind_a_startup_probe(r: Run) -> None:
    """LC T33: removed while a sidecar waits for its startup probe: gone long before the grace ends."""
    never = exec_probe(["false"], failureThreshold=1000)
    r.apply(
        r.pod(
            init=[
                sidecar("side1", script("side1")),
                sidecar("side2", script("side2"), startupProbe=never),
                sidecar("side3", script("side3")),
            ],
            main=[container("main", script("main"))],
            terminationGracePeriodSeconds=180,
        )
    )
    r.until_event("side2", "started", 60)
    removed = r.remove()
    gone = r.until_gone()
    r.check(gone - removed < 30, f"gone {gone - removed} s after the removal")
    r.ordered("side2 exiting", "side1 term")
    for name in ("side3", "main"):
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
    """LC T34 to T39, 11.6: exit codes and phase of a removed pod, with hooks and containers that overrun the grace."""

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
