"""How a removed pod ends: order, hooks, graces, exit codes (LC 10, 11.6, 13: T08 to T12, T32 to T39)."""

from __future__ import annotations

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
    for one, other in (("main1", "main2"), ("main2", "main1")):
        r.ordered(f"{one} term", f"{other} exiting")  # they are told together
    r.measure("remove_to_term", r.first("main1", "term") - removed)
    r.measure("side1_exit_to_gone", gone - r.first("side1", "exiting"))


@scenario()
def pre_stop_of_sidecars_at_once(r: Run) -> None:
    """LC T31, 10.3: at termination every preStop hook starts at once; SIGTERM still goes in reverse order."""

    def hook(name: str) -> Json:
        seconds = 3 if name == "main" else 1
        return pre_stop(name, f"j hook-begin; sleep {seconds}; j hook-end")

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
    for name in ("side1", "side2"):
        r.ordered(f"{name} hook-begin", "main hook-end")  # they begin together
    r.ordered("main hook-end", "main term", "main exiting", "side2 term", "side2 exiting", "side1 term")


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
