"""When probes run and count, kills aside: delays, thresholds, `started` before the others (PH 4, 5, 11)."""

from __future__ import annotations

import datetime as dt

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import container, exec_probe, file_probe, post_start, script, shell

scenario, table = suite.scenario, suite.table


@scenario()
def readiness_at_once(r: Run) -> None:
    """PH 11.3: the first readiness run does not wait for a period of a minute."""
    main = container("main", script("main"), readinessProbe=exec_probe(["true"]) | {"periodSeconds": 60})
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=5))
    r.until_event("main", "started", 60)
    r.until_ready(within=20)


@scenario()
def readiness_after_its_delay(r: Run) -> None:
    """PH 11.4: no readiness before the initial delay is over."""
    main = container("main", script("main"), readinessProbe=exec_probe(["true"], initialDelaySeconds=4))
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=5))
    status = r.until_ready(within=60)
    moments = (
        r.cstatus("main", status)["state"]["running"]["startedAt"],
        r.condition("Ready", status)["lastTransitionTime"],
    )
    began, ready = (dt.datetime.fromisoformat(moment) for moment in moments)
    # Both in whole seconds; a kubelet may be up to 1 s early.
    r.check((ready - began).total_seconds() >= 3, f"not ready before its delay: {moments}")


@scenario(lasts=14, beyond="it carries the successes over to the next container")
def successes_count_anew(r: Run) -> None:
    """PH 11.5, 11.6, README 4: readiness needs its successes in a row, and needs them again after a restart."""
    probe = exec_probe(shell("main", "j asked"), successThreshold=3)
    main = container("main", script("main", until="crash", code=1), readinessProbe=probe)
    r.apply(r.pod(main=[main], restartPolicy="Always", terminationGracePeriodSeconds=5))
    r.until_ready(within=60)
    r.check(r.count("main", "asked") >= 3, "ready after three runs")
    r.release("crash")
    r.until_event("main", "exiting")
    r.withdraw("crash")
    begun = r.until_event("main", "starting", nth=2).at
    r.until_ready()
    ready = next(at for at, s in reversed(r.history) if r.condition("Ready", s)["status"] == "True")
    asked = [e.at for e in r.events("main", "asked") if begun <= e.at <= ready]
    r.check(len(asked) >= 3, f"three runs before the second container was ready: {asked}")


@scenario()
def readiness_comes_and_goes(r: Run) -> None:
    """PH 11.7: readiness is lost after `failureThreshold` failures in a row and comes back; nothing is restarted."""
    main = container("main", script("main"), readinessProbe=file_probe("ready", failureThreshold=2))
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=5))
    r.until_event("main", "started", 60)
    for _ in range(2):
        r.release("ready")
        r.until_ready()
        r.withdraw("ready")
        r.until_ready("False")
    status = r.until_phase("Running")
    r.check(r.condition("ContainersReady", status)["reason"] == "ContainersNotReady", "ContainersNotReady")
    r.check(r.restarts("main", status) == 0, "no restart")


@scenario()
def nothing_before_started(r: Run) -> None:
    """PH 11.21: liveness and readiness wait for the startup probe; then readiness comes at once."""
    main = container(
        "main",
        script("main"),
        startupProbe=file_probe("up", failureThreshold=60),
        livenessProbe=exec_probe(shell("main", "j live")),
        readinessProbe=exec_probe(shell("main", "j ready")) | {"periodSeconds": 60},
    )
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=5))
    r.until_told("Unhealthy", "Startup probe failed: ", who="main", within=60)
    r.until_event("main", "started", 60)
    status = r.until("running", lambda: (s := r.status()) and "running" in r.cstatus("main", s)["state"] and s)
    r.check(r.cstatus("main", status)["started"] is False, "not started")
    r.check(not r.events("main", "live") and not r.events("main", "ready"), "neither was run")
    r.release("up")
    r.until_ready(within=20)
    r.check(r.cstatus("main")["started"], "started")
    r.until_event("main", "live")


@scenario()
def nothing_before_post_start_ended(r: Run) -> None:
    """PH 11.37: no probe runs while the postStart hook does."""
    main = container(
        "main",
        script("main"),
        lifecycle=post_start("main", "until_file go; sleep 1; j hook-end"),
        startupProbe=exec_probe(shell("main", "j startup")),
        livenessProbe=exec_probe(shell("main", "j live")),
    )
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=5))
    r.until_event("main", "started", 60)
    r.until("main waits", lambda: r.waiting("main"))
    r.release("go")
    r.until_event("main", "live")
    r.ordered("main hook-end", "main startup", "main live")


@scenario(lasts=12, beyond="it shows the new container as started until its startup probe runs (PH 5)")
def started_begins_anew(r: Run) -> None:
    """PH 11.55, README 4: after a liveness kill `started` is false until the new container's startup probe succeeds."""
    main = container(
        "main",
        script("main"),
        startupProbe=file_probe("up", failureThreshold=60),
        livenessProbe=file_probe("live", failureThreshold=1),
    )
    r.apply(r.pod(main=[main], restartPolicy="Always", terminationGracePeriodSeconds=5))
    r.release("live")
    r.release("up")
    r.until("started", lambda: r.cstatus("main")["started"], 60)
    first = r.cstatus("main")["containerID"]
    r.withdraw("up")
    r.withdraw("live")
    r.until_event("main", "starting", nth=2)
    r.release("live")
    second = r.until(
        "second", lambda: (c := r.cstatus("main"))["containerID"] != first and "running" in c["state"] and c
    )
    r.release("up")
    r.until("started again", lambda: r.cstatus("main")["started"])
    r.check(second["started"] is False, "the new container was not started at first")
