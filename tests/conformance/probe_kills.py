"""What a failing liveness or startup probe does: kills, graces, restarts, back-off (PH 5.1, 11.8 to 11.24)."""

from __future__ import annotations

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    POLICIES,
    Json,
    container,
    exec_probe,
    fails,
    pre_stop,
    script,
    shell,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@scenario()
def liveness_restarts_sidecar(r: Run) -> None:
    """PH 11.24: a failing liveness probe restarts the sidecar and leaves the main container alone."""
    r.apply(
        r.pod(
            init=[
                sidecar(
                    "side",
                    script("side", body="[ -e /journal/second ] && touch /tmp/live; touch /journal/second"),
                    livenessProbe=exec_probe(["cat", "/tmp/live"], failureThreshold=2),
                )
            ],
            main=[container("main", script("main", run=12))],
        )
    )
    status = r.until_phase("Succeeded", 90)
    r.check(r.cstatus("side", status)["restartCount"] == 1, "the sidecar was restarted once")
    r.check(len(r.events("main", "starting")) == 1, "main ran once")
    r.ordered("main starting", "side term")


@scenario()
def startup_failure_restarts_sidecar(r: Run) -> None:
    """LC T40: a startup probe that runs out of tries restarts the sidecar; nothing after it starts meanwhile."""
    r.apply(
        r.pod(
            init=[
                sidecar(
                    "side",
                    script("side", body="[ -e /journal/second ] && touch /tmp/up; touch /journal/second"),
                    startupProbe=exec_probe(["cat", "/tmp/up"], failureThreshold=2),
                )
            ],
            main=[container("main", script("main", run=1))],
        )
    )
    status = r.until_phase("Succeeded", 90)
    r.check(r.cstatus("side", status)["restartCount"] == 1, "one restart")
    r.check(r.first("main", "starting") > r.events("side", "starting")[1].at, "main waited for the second life")


@scenario(lasts=14, beyond="two probe kills do not count for its back-off, only the third does")
def liveness_kills_back_off(r: Run) -> None:
    """PH 11.8, README 5: liveness kills after its threshold; it restarts at once, then after the back-off."""
    probe = exec_probe(shell("main", "when_started; j asked; exit 1"), failureThreshold=2)
    r.apply(r.pod(restartPolicy="Always", main=[container("main", script("main"), livenessProbe=probe)]))
    r.until_event("main", "term", 60)
    asked = [e for e in r.events("main", "asked") if e.at <= r.first("main", "term")]
    r.check(len(asked) >= 2, "killed after two failures")
    r.until_told("Unhealthy", "Liveness probe failed: ", who="main")
    r.until_told("Killing", "Container main failed liveness probe, will be restarted", who="main")
    r.until_event("main", "exiting", nth=2)
    r.until("CrashLoopBackOff", lambda: r.waiting("main")["reason"] == "CrashLoopBackOff")
    end = r.cstatus("main")["lastState"]["terminated"]
    r.check((end["exitCode"], end["reason"]) == (0, "Completed"), "the end was in order")
    r.until_event("main", "starting", 40, nth=3)
    gap = r.events("main", "starting")[2].at - r.events("main", "exiting")[1].at
    r.check(gap >= 9.9, f"a back-off of 10 s, not {gap}")


@scenario()
def grace_of_the_probe(r: Run) -> None:
    """PH 11.9: a kill for a probe uses the probe's own grace."""
    main = container("main", script("main", on_term=None), livenessProbe=fails(terminationGracePeriodSeconds=3))
    r.apply(r.pod(restartPolicy="Always", terminationGracePeriodSeconds=20, main=[main]))
    term = r.until_event("main", "term", 60).at
    again = r.until_event("main", "starting", 15, nth=2).at
    r.check(again - term >= 2.5, f"killed after its 3 s, not {again - term}")
    r.until("137", lambda: r.cstatus("main")["lastState"]["terminated"]["exitCode"] == 137)
    r.check(r.cstatus("main")["lastState"]["terminated"]["reason"] == "Error", "Error")


@scenario()
def last_main_fails_liveness(r: Run) -> None:
    """PH 11.10: under Never the kill of the only main is the end of the pod, with the pod's grace."""
    main = container("main", script("main", on_term=None), livenessProbe=fails(terminationGracePeriodSeconds=1))
    r.apply(r.pod(terminationGracePeriodSeconds=5, main=[main]))
    term = r.until_event("main", "term", 60).at
    status = r.until_phase("Failed")
    r.check(r.history[-1][0] - term >= 4.5, "the pod's grace was used")
    r.check(r.ended("main", status) == (137, "Error"), "killed")
    r.until_told("Killing", "Stopping container main", who="main")
    r.never_told("Killing", "Container main failed liveness probe", who="main")


@scenario()
def one_of_two_mains_fails_liveness(r: Run) -> None:
    """PH 11.11: under Never the other main goes on, and the kill uses the probe's grace."""
    main = container("main", script("main", on_term=None), livenessProbe=fails(terminationGracePeriodSeconds=2))
    r.apply(r.pod(terminationGracePeriodSeconds=25, main=[main, container("other", script("other"))]))
    r.until("killed", lambda: r.ended("main") == (137, "Error"), 20)
    r.until_told("Killing", "Container main failed liveness probe", who="main")
    r.never_told("Killing", "Container main failed liveness probe, will", who="main")
    r.check((r.status() or {})["phase"] == "Running", "the pod is Running")
    r.check(r.count("main", "starting") == 1, "main was not restarted")


@table({"liveness": "liveness", "startup": "startup"})
def killed_main_exits_0(r: Run, kind: str) -> None:
    """LC T09, T10, PH 11.12: preStop runs while the container does; exit code 0 makes the Never pod Succeeded."""
    probe = {f"{kind}Probe": fails()}
    main = container("main", script("main"), lifecycle=pre_stop("main", "j hook-begin; sleep 1; j hook-end"), **probe)
    r.apply(r.pod(main=[main]))
    status = r.until_phase("Succeeded", 60)
    r.ordered("main hook-begin", "main hook-end", "main term", "main exiting")
    r.check(r.ended("main", status) == (0, "Completed") and r.restarts("main", status) == 0, "Completed, no restart")


@scenario(lasts=14, beyond="when the back-off comes first it takes an exit code of 0 for the end (PH 11.13)")
def killed_under_on_failure_comes_back(r: Run) -> None:
    """PH 5.1, 11.13: under OnFailure what a probe killed is restarted as its event promises, whatever its exit code."""
    r.apply(r.pod(restartPolicy="OnFailure", main=[container("main", script("main"), livenessProbe=fails())]))
    r.until_event("main", "starting", 60, nth=3)
    r.check(r.restarts("main") >= 1 and (r.status() or {})["phase"] == "Running", "the pod is Running")
    r.until_told("Killing", "Container main failed liveness probe, will be restarted", who="main")


@scenario()
def own_policy_never_stays_down(r: Run) -> None:
    """PH 11.14: a container with its own policy Never stays down in an Always pod."""
    main = container("main", script("main"), livenessProbe=fails(), restartPolicy="Never")
    r.apply(r.pod(restartPolicy="Always", main=[main, container("other", script("other"))]))
    r.until("main ended", lambda: r.ended("main") == (0, "Completed"), 60)
    r.until_told("Killing", "Container main failed liveness probe", who="main")
    r.never_told("Killing", "Container main failed liveness probe, will", who="main")
    r.check(r.restarts("main") == 0 and r.count("main", "starting") == 1, "never restarted")


#: PH 11: what a liveness probe gets; whether it kills; how its events begin.
VERDICTS: dict[str, tuple[Json, bool, str]] = {
    "r15": (exec_probe(["/nosuch"]), False, "Liveness probe errored and resulted in unknown state: rpc error: code = "),
    "r16": (exec_probe(shell("r16", "when_started; nosuch")), True, "Liveness probe failed: sh: "),
    "r32": (
        {"httpGet": {"port": "web"}, "periodSeconds": 1},
        False,
        'Liveness probe errored and resulted in unknown state: strconv.Atoi: parsing "web": invalid syntax',
    ),
    "r34": (
        {"tcpSocket": {"port": 81}, "periodSeconds": 1, "initialDelaySeconds": 3},
        True,
        "Liveness probe failed: dial tcp ",
    ),
    "r34-open": ({"tcpSocket": {"port": 8080}, "periodSeconds": 1}, False, ""),
}


@scenario()
def what_kills_and_what_does_not(r: Run) -> None:
    """PH 11.15, 11.16, 11.32, 11.34: failures kill, errors never do."""
    mains = [
        container(name, script(name), livenessProbe={**probe, "failureThreshold": 1}, readinessProbe=probe)
        for name, (probe, _, _) in VERDICTS.items()
    ]
    web = container("web", script("web", body="httpd -p 8080 -h /tmp"))
    r.apply(r.pod(main=[web, *mains], terminationGracePeriodSeconds=5))
    for name, (_, kills, message) in VERDICTS.items():
        r.until_event(name, "started", 60)
        if message:
            r.until_told("Unhealthy", message, who=name, within=60)
        if kills:
            r.until_event(name, "exiting", 60)
    r.until("r34-open was asked", lambda: r.cstatus("r34-open")["ready"])
    for name, (_, kills, _) in VERDICTS.items():
        r.check(bool(r.events(name, "term")) is kills, f"{name} was killed: {not kills}")
        if not kills:
            r.check("running" in r.cstatus(name)["state"], f"{name} runs")


@scenario(lasts=10, beyond="it carries the count of failures over to the next container")
def failures_count_anew(r: Run) -> None:
    """PH 11.20, README 4: a container does not die for the failures of its predecessor."""
    probe = exec_probe(shell("main", "when_started; j asked; exit 1"), failureThreshold=4)
    crash = "[ -e /journal/again ] || { until_file crash; touch /journal/again; j crashing; exit 1; }"
    r.apply(r.pod(restartPolicy="Always", main=[container("main", script("main", body=crash), livenessProbe=probe)]))
    r.until_event("main", "asked", 60, nth=2)
    r.release("crash")
    begun = r.until_event("main", "starting", nth=2).at
    term = r.until_event("main", "term", 20).at
    asked = [e.at for e in r.events("main", "asked") if begun <= e.at <= term]
    r.check(len(asked) >= 4, f"the second container was asked four times: {asked}")


@scenario(lasts=14)
def startup_never_succeeds(r: Run) -> None:
    """PH 11.22: a failing startup probe kills; the container is never started, its other probes never run."""
    main = container(
        "main",
        script("main"),
        startupProbe=fails(failureThreshold=2),
        livenessProbe=exec_probe(shell("main", "j live")),
        readinessProbe=exec_probe(shell("main", "j ready")),
    )
    r.apply(r.pod(restartPolicy="Always", main=[main]))
    r.until_event("main", "exiting", 60, nth=2)
    r.until_told("Killing", "Container main failed startup probe, will be restarted", who="main")
    r.check(
        not any(r.cstatus("main", s)["started"] for _, s in r.history if s.get("containerStatuses")), "never started"
    )
    r.check(not r.events("main", "live") and not r.events("main", "ready"), "neither was run")


@scenario(lasts=16)
def sidecar_startup_never_succeeds(r: Run) -> None:
    """LC T27, PH 11.23: a sidecar that fails its startup probe is restarted, preStop first; main never starts."""
    side = sidecar(
        "side",
        script("side"),
        startupProbe=fails(failureThreshold=2),
        lifecycle=pre_stop("side", "j hook"),
    )
    r.apply(r.pod(restartPolicy="Always", init=[side], main=[container("main", script("main"))]))
    r.until_event("side", "starting", 60, nth=3)
    r.ordered("side started", "side hook", "side term")
    r.until("two restarts", lambda: r.restarts("side") >= 2)
    r.until_told("Killing", "Init container side failed startup probe", who="side")
    status = r.status() or {}
    r.check(status["phase"] == "Pending", "the pod is Pending")
    r.check(r.waiting("main")["reason"] == "PodInitializing", "main is PodInitializing")
    r.never("main", "starting")


@table(POLICIES, lasts=16)
def sidecar_liveness_kills(r: Run, policy: str) -> None:
    """LC T28, PH 11.24: a sidecar's liveness kills restart it under every policy, preStop first, and not main."""
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[sidecar("side", script("side"), livenessProbe=fails(), lifecycle=pre_stop("side", "j hook"))],
            main=[container("main", script("main", until="done", code=1))],
        )
    )
    r.until_up("main")
    r.until_event("side", "starting", 40, nth=3)
    r.ordered("side hook", "side term", "side exiting")
    r.until("two restarts", lambda: r.restarts("side") >= 2)
    r.check(r.restarts("main") == 0 and r.count("main", "starting") == 1, "main was left alone")
    r.until_told("Killing", "Init container side failed liveness probe", who="side")
    r.release("done")
    if policy == "Never":
        r.until_phase("Failed")
    else:
        r.until_event("main", "starting", nth=2)


@scenario(beyond="the pod's state stands still until the killed container is restarted")
def a_kill_holds_up_no_other(r: Run) -> None:
    """PH 11.50, README 2: while one main takes its time to end, the exit of another is seen and answered."""
    slow = container("slow", script("slow", on_term=6), livenessProbe=fails(initialDelaySeconds=1))
    r.apply(r.pod(restartPolicy="Always", main=[slow, container("other", script("other", until="crash", code=1))]))
    r.until_event("slow", "term", 60)
    r.release("crash")
    r.until_event("other", "starting", 5, nth=2)
    r.until("restarted", lambda: r.restarts("other") == 1, 5)
    r.never("slow", "exiting")


@scenario()
def readiness_goes_on_during_a_kill(r: Run) -> None:
    """LC T11: during the preStop of a liveness kill readiness is still asked, liveness not any more."""
    main = container(
        "main",
        script("main"),
        livenessProbe=exec_probe(shell("main", "when_started; j live; exit 1"), failureThreshold=1),
        readinessProbe=exec_probe(shell("main", "j ready")),
        lifecycle=pre_stop("main", "j hook-begin; sleep 3; j hook-end"),
    )
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=20))
    r.until_phase("Succeeded", 60)
    begin, end = r.first("main", "hook-begin"), r.first("main", "hook-end")
    r.check([e for e in r.events("main", "ready") if begin < e.at < end], "readiness was asked meanwhile")
    r.check(not [e for e in r.events("main", "live") if begin < e.at < end], "liveness was not")
