"""What is restarted, when, and what is left alone meanwhile (LC 4.2, 4.3, 5.2 to 5.4, 7)."""

from __future__ import annotations

from typing import Any

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    FAIL_ONCE,
    POLICIES,
    Json,
    container,
    pre_stop,
    script,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@scenario()
def on_failure_restarts_main_only(r: Run) -> None:
    """restartPolicy OnFailure restarts the failed main container; sidecars and init containers stay as they are."""
    flaky = script(
        "main",
        body=FAIL_ONCE,
        run=0.5,
    )
    r.apply(
        r.pod(
            restartPolicy="OnFailure",
            init=[container("init", script("init", run=0.1)), sidecar("side", script("side"))],
            main=[container("main", flaky)],
        )
    )
    status = r.until_phase("Succeeded", 90)
    r.check(r.cstatus("main", status)["restartCount"] == 1, "main was restarted once")
    r.check(r.cstatus("side", status)["restartCount"] == 0, "the sidecar was not restarted")
    r.check(len(r.events("init", "starting")) == 1, "the init container ran once")
    r.check(r.cstatus("main", status)["lastState"]["terminated"]["exitCode"] == 1, "lastState keeps exit code 1")


@scenario(lasts=36, beyond="its /pods goes on showing the terminated state until the back-off is over")
def always_restarts_with_backoff(r: Run) -> None:
    """LC T04, T07, T18: Always restarts at a growing distance and says CrashLoopBackOff; all else is left alone."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[
                container("init1", script("init1", run=0.1)),
                sidecar("side", script("side")),
                container("init2", script("init2", run=0.1)),
            ],
            main=[container("main", script("main", run=0.1, code=1))],
        )
    )
    r.until_event("main", "exiting", 90, nth=4)
    starts = [e.at for e in r.events("main", "starting")]
    ends = [e.at for e in r.events("main", "exiting")]
    gaps = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    r.check(gaps[1] >= 9.9 and gaps[2] >= 19.9, f"gaps grow as 10, 20 s after the first quick restart: {gaps}")
    message = "back-off 40s restarting failed container=main pod="
    r.until(message, lambda: r.waiting("main")["message"].startswith(message))
    r.check(r.waiting("main")["reason"] == "CrashLoopBackOff", "CrashLoopBackOff")
    r.check(r.cstatus("main")["lastState"]["terminated"]["exitCode"] == 1, "lastState shows the crash")
    r.until_told("BackOff", "Back-off restarting failed container main in pod", who="main")
    r.check(r.restarts("main") == 3, "three restarts")
    for name in ("init1", "side", "init2"):
        r.check(r.count(name, "starting") == 1, f"{name} started once")
    r.check((r.status() or {})["phase"] == "Running", "the pod is Running meanwhile")
    r.measure("first_restart", gaps[0])


@scenario()
def init_failure_never(r: Run) -> None:
    """LC T24: a failed init container fails a restartPolicy Never pod; its sidecar is ended, main never starts."""
    r.apply(
        r.pod(
            init=[sidecar("side", script("side")), container("init", script("init", run=1, code=2))],
            main=[container("main", script("main", run=1))],
        )
    )
    status = r.until_phase("Failed", 60)
    r.until_event("side", "term")
    r.never("main", "starting")
    r.check(r.cstatus("init", status)["state"]["terminated"]["exitCode"] == 2, "init's exit code")
    r.check("waiting" in r.cstatus("main", status)["state"], "main is shown as waiting")


@scenario()
def init_failure_retried(r: Run) -> None:
    """LC T25: with restartPolicy Always a failed init container is retried; the sidecar before it is left alone."""
    flaky = script(
        "init",
        body=FAIL_ONCE,
        run=0.1,
    )
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side")), container("init", flaky)],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("main", "started", 60)
    status = r.until_phase("Running")
    r.check(r.cstatus("init", status)["restartCount"] == 1, "init was restarted once")
    r.check(len(r.events("side", "starting")) == 1, "the sidecar started once")


@table({f"{key}-{code}": (policy, code) for key, policy in POLICIES.items() for code in (0, 1)}, lasts=16)
def sidecar_restarts(r: Run, row: tuple[str, int]) -> None:
    """LC T20, T21: a sidecar that exits is restarted whatever its code and the policy, before and after main starts."""
    policy, code = row
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[
                sidecar("side", script("side", run=0.5, code=code)),
                container("init", script("init", until="initialised")),
            ],
            main=[container("main", script("main", until="done"))],
        )
    )
    r.until_event("side", "exiting", 60, nth=2)
    r.check(not r.events("main", "starting"), "restarted before main started")
    r.release("initialised")
    r.until_up("main")
    if code == 0:
        r.until("Completed", lambda: r.ended("side") == (0, "Completed"))  # LC 11.2.6
    r.until_event("side", "starting", 40, nth=3)
    r.check(r.events("side", "starting")[2].at - r.events("side", "exiting")[1].at >= 9.9, "the back-off is 10 s")
    r.release("done")
    if policy == "Always":
        r.until_event("main", "starting", nth=2)
    else:
        status = r.until_phase("Succeeded")
        r.check(r.restarts("side", status) >= 2, "side was restarted")
        r.check(r.restarts("main", status) == 0 and r.count("main", "starting") == 1, "main ran once")
    r.check(r.count("init", "starting") == 1, "init ran once")


@scenario(beyond="mains wait for the last sidecar (LC 4.2.5)")
def last_sidecar_down_holds_back_no_main(r: Run) -> None:
    """LC 4.2.3, README 5: a main that fails while the last sidecar is in its back-off is restarted at once."""
    r.apply(
        r.pod(
            restartPolicy="OnFailure",
            init=[sidecar("side", script("side", until="crash", code=1))],
            main=[container("main", script("main", body=FAIL_ONCE.replace("j failing", "until_file fail; j failing")))],
        )
    )
    r.until_event("main", "started", 60)
    r.release("crash")
    r.until_event("side", "exiting", nth=2)
    r.until("back-off", lambda: r.waiting("side")["reason"] == "CrashLoopBackOff")
    r.release("fail")
    r.until_event("main", "starting", nth=2)
    r.check(r.count("side", "starting") == 2, "the sidecar was still down")


#: Pod policy, what is set on the container, its exit code; whether it restarts, else the phase of the pod.
OWN_POLICIES: dict[str, tuple[str, Json, int, str]] = {
    "never-in-always": ("Always", {"restartPolicy": "Never"}, 3, "Failed"),
    "onfailure-in-always": ("Always", {"restartPolicy": "OnFailure"}, 0, "Succeeded"),
    "always-in-never": ("Never", {"restartPolicy": "Always"}, 0, ""),
    "onfailure-in-never": ("Never", {"restartPolicy": "OnFailure"}, 3, ""),
    "rule-in-never": (
        "Never",
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3, 42]}}],
        },
        42,
        "",
    ),
    "other-code-in-never": (
        "Never",
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3, 42]}}],
        },
        1,
        "Failed",
    ),
    "rule-not-in": (
        "Always",
        {
            "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [9]}}],
        },
        9,
        "Failed",
    ),
}


@table(OWN_POLICIES, lasts=4)
def own_restart_policy(r: Run, row: tuple[str, Json, int, str]) -> None:
    """LC 5.3: a container's own policy and its rules come before the pod's policy, both ways."""
    policy, own, code, phase = row
    r.apply(r.pod(restartPolicy=policy, main=[container("main", script("main", run=0.2, code=code), **own)]))
    if phase:
        status = r.until_phase(phase, 60)
        r.check(r.ended("main", status)[0] == code and r.restarts("main", status) == 0, "main ran once")
    else:
        r.until_event("main", "starting", 60, nth=2)
        r.check((r.status() or {})["phase"] == "Running", "the pod is Running")


@scenario()
def own_policy_of_init_container(r: Run) -> None:
    """LC 5.3: an init container with policy OnFailure is retried in a pod with policy Never."""
    flaky = container("init", script("init", body=FAIL_ONCE, run=0.1), restartPolicy="OnFailure")
    r.apply(r.pod(init=[flaky], main=[container("main", script("main", run=0.1))]))
    status = r.until_phase("Succeeded", 60)
    r.check(r.restarts("init", status) == 1, "init was restarted once")


@table({"main": "main", "side": "side", "init2": "init2"}, lasts=12)
def restart_all_containers(r: Run, culprit: str) -> None:
    """LC 5.4: an exit with the action RestartAllContainers begins all again, in order and in the same sandbox."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    trigger = "[ -e /journal/done{0} ] || {{ until_file now{0}; touch /journal/done{0}; j triggering; exit 88; }}"
    twice = "\n".join(trigger.format(n) for n in (1, 2))

    def made(name: str, *, run: float | None = None, **extra: Any) -> Json:
        if name != culprit:
            return container(name, script(name, run=run), **extra)
        own = {"restartPolicy": "Never", **extra, "restartPolicyRules": [rule]}
        return container(name, script(name, run=run, body=twice), **own)

    r.apply(
        r.pod(
            init=[
                made("init1", run=0.1),
                made("side", restartPolicy="Always", lifecycle=pre_stop("side", "j hook")),
                made("init2", run=0.1),
            ],
            main=[made("main"), made("other")],
            terminationGracePeriodSeconds=20,
        )
    )
    # The last to start, and who has run by then: mains do not while it is an init container that asks.
    last = "init2" if culprit == "init2" else "other"
    everyone = ["init1", "side", "init2"] if culprit == "init2" else ["init1", "side", "init2", "main", "other"]
    r.until_event(last, "started", 60)
    address = r.until("sandbox", lambda: (r.status() or {})["podIP"])
    for times in (1, 2):
        r.release(f"now{times}")
        r.until_event(last, "started", 60, nth=times + 1)
        r.until(f"restartCount {times} of all", lambda: {r.restarts(n) for n in everyone} == {times})  # noqa: B023
    r.until_up("main", "other")
    status = r.until_phase("Running")
    for name in everyone:
        r.check(r.count(name, "starting") == 3, f"{name} ran three times")
    r.check(status["podIP"] == address, "the sandbox was kept")
    r.never("side", "hook")
    r.never_told("BackOff", "")
    again = [r.events(n, "starting")[-1].at for n in ("init1", "side", "init2", "main")]
    r.check(again == sorted(again), f"in order: {again}")
    r.check(r.condition("AllContainersRestarting", status)["status"] == "False", "the condition is False again")


@scenario(lasts=14, beyond="it runs the last init container again (LC 4.4)")
def lost_record_of_init_container(r: Run) -> None:
    """LC 4.4, README 5: a completed init container is not run again because its record is gone while no main runs."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[container("init", script("init", run=0.1))],
            main=[container("main", script("main", run=0.1, code=1))],
        )
    )
    r.until_event("main", "exiting", 60, nth=2)
    r.until("back-off", lambda: r.waiting("main")["reason"] == "CrashLoopBackOff")
    r.forget(r.cstatus("init")["containerID"])
    r.until_event("main", "starting", 40, nth=3)
    r.check(r.count("init", "starting") == 1, "init ran once")
    r.check(r.ended("init") == (0, "Completed"), "it is shown as Completed")
