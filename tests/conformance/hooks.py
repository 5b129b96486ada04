"""postStart and preStop hooks: when they run, what their failure does, what they take of the grace (PH 7, 11)."""

from __future__ import annotations

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import Json, container, fails, file_probe, post_start, pre_stop, script, sidecar

scenario, table = suite.scenario, suite.table

#: Nothing listens there.
CLOSED = {"httpGet": {"host": "127.0.0.1", "port": 1}}


@scenario(lasts=12)
def failing_post_start(r: Run) -> None:
    """PH 11.39: a failing postStart hook kills its container; the reason is shown, then the back-off."""
    main = container("main", ["sleep", "100"], lifecycle=post_start("main", "j hook; echo oh dear; sleep 0.5; exit 3"))
    r.apply(r.pod(restartPolicy="Always", main=[main], terminationGracePeriodSeconds=1))
    failed = r.until(
        "PostStartHookError",
        lambda: (
            (c := r.cstatus("main"))["state"]["waiting"]["reason"] == "PostStartHookError"
            and "terminated" in c["lastState"]
            and c
        ),
        60,
    )
    error = failed["state"]["waiting"]["message"]
    r.check(error.startswith("Exec lifecycle hook ([sh -c N=main"), f"the message says which hook: {error}")
    r.check('for Container "main" in Pod "' in error and "exited with 3" in error and "oh dear" in error, error)
    end = failed["lastState"]["terminated"]
    r.check((end["exitCode"], end["reason"]) == (137, "Error"), "lastState is the kill")
    r.until_told("FailedPostStartHook", "PostStartHook failed", who="main")
    r.until_told("Killing", "FailedPostStartHook", who="main")
    r.until("back-off", lambda: r.waiting("main")["reason"] == "CrashLoopBackOff")


@scenario()
def failing_post_start_under_never(r: Run) -> None:
    """PH 11.40: the kill runs preStop; under Never the state stays terminated and the phase follows the exit code."""
    lifecycle = {**post_start("main", "when_started; exit 3"), **pre_stop("main", "j pre-stop")}
    r.apply(r.pod(main=[container("main", script("main"), lifecycle=lifecycle)]))
    status = r.until_phase("Succeeded", 60)
    r.ordered("main pre-stop", "main term")
    r.check(r.ended("main", status) == (0, "Completed"), "Completed")


@scenario()
def post_start_by_tcp_fails(r: Run) -> None:
    """PH 11.52: a tcpSocket hook is accepted and always fails."""
    hook = {"postStart": {"tcpSocket": {"port": 80}}}
    main = container("main", ["sleep", "100"], lifecycle=hook)
    r.apply(r.pod(restartPolicy="OnFailure", main=[main], terminationGracePeriodSeconds=2))
    error = r.until("PostStartHookError", lambda: (w := r.waiting("main"))["reason"] == "PostStartHookError" and w, 60)[
        "message"
    ]
    r.check("invalid handler" in error, error)
    r.until("killed", lambda: r.cstatus("main")["lastState"]["terminated"]["exitCode"] == 137)


@scenario()
def post_start_by_http(r: Run) -> None:
    """PH 11.51: any answer is good enough for an HTTP hook; HTTPS falls back to HTTP."""
    serve = sidecar(
        "web",
        script("web", body="httpd -p 8080 -h /tmp"),
        startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60},
    )
    hooks: dict[str, Json] = {
        "missing": {"path": "/missing", "port": 8080},
        "secure": {"path": "/", "port": 8080, "scheme": "HTTPS"},
    }
    mains = [container(n, script(n), lifecycle={"postStart": {"httpGet": hook}}) for n, hook in hooks.items()]
    r.apply(r.pod(init=[serve], main=mains, terminationGracePeriodSeconds=5))
    status = r.until_up(*hooks)
    r.until_told("LifecycleHTTPFallback", "request to HTTPS lifecycle hook ")
    for name in hooks:
        r.check(r.restarts(name, status) == 0, f"{name} was not killed")


#: Grace, preStop hook, whether main obeys; seconds from the removal to SIGTERM, and from there to SIGKILL, at least.
PRE_STOPS: dict[str, tuple[int, Json, bool, float, float]] = {
    "r41": (3, pre_stop("main", "j hook; sleep 30"), False, 3, 2),
    "r42": (4, {"preStop": {"sleep": {"seconds": 2}}}, False, 2, 2),
    "r43": (3, {"preStop": CLOSED}, False, 0, 3),
    "r45": (0, pre_stop("main", "j hook; sleep 5"), False, 1, 2),
    "obeys": (20, pre_stop("main", "j hook; sleep 1"), True, 1, 0),
}


@table(PRE_STOPS)
def pre_stop_uses_the_grace(r: Run, row: tuple[int, Json, bool, float, float]) -> None:
    """PH 11.41 to 11.45: what a preStop hook takes is taken from the grace; 2 s always stay for the container."""
    grace, hook, obeys, to_term, to_kill = row
    main = container("main", script("main", on_term=0 if obeys else None), lifecycle=hook)
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=grace))
    r.until_up("main")
    removed = r.remove()
    gone = r.until_gone()
    term = r.first("main", "term")
    r.check(term - removed >= to_term - 0.1, f"SIGTERM {term - removed} s after the removal")
    r.check(gone - removed >= to_term + to_kill - 0.1, f"gone {gone - removed} s after the removal")
    r.check(gone - removed < grace + 2 + 10, f"gone {gone - removed} s after the removal")
    if "exec" in hook["preStop"]:
        r.ordered("main hook", "main term")
    if obeys:
        r.until_event("main", "exiting", 1)


@scenario()
def failed_pre_stop_is_told(r: Run) -> None:
    """PH 7.5, 11.43: a hook that fails is told in an event; the stop goes on at once."""
    main = container("main", script("main", on_term=2), lifecycle={"preStop": CLOSED})
    r.apply(r.pod(main=[main], terminationGracePeriodSeconds=10))
    r.until_up("main")
    r.remove()
    r.until_told("FailedPreStopHook", "PreStopHook failed", who="main")
    r.until_gone()
    r.check(r.events("main", "exiting"), "main ended in order")


@scenario()
def no_grace_no_hook_in_a_probe_kill(r: Run) -> None:
    """PH 11.46: with grace 0 a probe kill runs no hook, and leaves 2 s."""
    main = container("main", script("main", on_term=None), livenessProbe=fails(), lifecycle=pre_stop("main", "j hook"))
    r.apply(r.pod(main=[main, container("other", script("other"))], terminationGracePeriodSeconds=0))
    r.until("killed", lambda: r.ended("main") == (137, "Error"), 60)
    r.never("main", "hook")
    r.check(r.events("main", "term"), "told first")


@scenario(beyond="it runs a hook to its end before it looks at the removal")
def removal_abandons_post_start(r: Run) -> None:
    """README 2: a removal takes effect while a postStart hook runs; nothing further is started."""
    side = sidecar("side", script("side"), lifecycle=post_start("side", "j hook; sleep 1000"))
    r.apply(r.pod(init=[side], main=[container("main", script("main"))]))
    r.until_event("side", "hook", 60)
    removed = r.remove()
    gone = r.until_gone()
    r.check(gone - removed < 10, f"gone {gone - removed} s after the removal")
    r.check(r.events("side", "exiting"), "the sidecar ended in order")
    r.never("main", "starting")


@scenario(beyond="the pod's state, its probes and kills stand still until the hook has ended")
def post_start_freezes_nothing(r: Run) -> None:
    """README 3: while a postStart hook runs the other containers are probed, killed, restarted and shown."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side"), livenessProbe=file_probe("live", failureThreshold=1))],
            main=[
                container("first", script("first", until="crash", code=1)),
                container("main", script("main"), lifecycle=post_start("main", "j hook; until_file go")),
            ],
            terminationGracePeriodSeconds=5,
        )
    )
    r.release("live")
    r.until_event("main", "hook", 60)
    r.withdraw("live")
    r.until_event("side", "term")
    r.release("live")
    r.until_event("side", "starting", nth=2)
    r.release("crash")
    r.until_event("first", "starting", nth=2)
    r.until("both restarts are shown", lambda: r.restarts("side") >= 1 and r.restarts("first") >= 1)
    r.check(r.waiting("main")["reason"] == "PodInitializing", "main waits for its hook")
    r.release("go")
    r.until_up("main")
