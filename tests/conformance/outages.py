"""The agent is killed and comes back: nothing is lost, nothing runs twice (LC 3.3, 4.6, T13 to T43)."""

from __future__ import annotations

import time

from tests.conformance.harness.host import uptime
from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    STARTED,
    Json,
    container,
    exec_probe,
    script,
    shell,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@scenario(outage="agent")
def agent_restart_leaves_pods_alone(r: Run) -> None:
    """LC T14, T42: killing and restarting the agent restarts no container and re-runs no init container."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[
                container("init", script("init", run=0.1)),
                sidecar("side", script("side", delay=1), startupProbe=STARTED),
            ],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    before = {n: r.cstatus(n)["containerID"] for n in ("side", "main")}
    dead = r.cstatus("init")["containerID"]
    with r.outage():
        r.forget(dead)
    status = r.until("Ready again", lambda: (s := r.status()) and r.condition("Ready", s)["status"] == "True" and s, 30)
    r.check({n: r.cstatus(n, status)["containerID"] for n in before} == before, "the same containers")
    r.check(len(r.events("init", "starting")) == 1, "init ran once")


@scenario(outage="agent")
def agent_down_while_main_ends(r: Run) -> None:
    """A pod whose main container ended while the agent was down is finished in order when it is back."""
    r.apply(
        r.pod(
            init=[sidecar("side1", script("side1")), sidecar("side2", script("side2"))],
            main=[container("main", script("main", until="done"))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    with r.outage():
        r.release("done")
        r.until_event("main", "exiting", 20)
        r.never("side2", "term")
    r.until_phase("Succeeded", 30)
    r.ordered("main exiting", "side2 term", "side2 exiting", "side1 term")
    r.check(len(r.events("main", "starting")) == 1, "main ran once")


@table({"kept": False, "gone": True}, outage="agent")
def agent_down_while_init_runs(r: Run, records_go: bool) -> None:
    """LC T15: an agent that comes back while the third init container runs does not run the first two again."""
    names = ["init1", "init2", "init3"]
    ends = {"init1": 0.1, "init2": 0.1, "init3": None}
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[container(n, script(n, run=ends[n], until="" if ends[n] else "go")) for n in names],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("init3", "started", 60)
    r.until("init2 is shown as done", lambda: r.ended("init2"))
    dead = [r.cstatus(n)["containerID"] for n in names[:2]]
    with r.outage():
        if records_go:
            r.forget(*dead)
    r.release("go")
    r.until_up("main")
    for name in names:
        r.check(r.count(name, "starting") == 1, f"{name} ran once")


@scenario(outage="agent", beyond="a file pod has no stored status, so `started` and `ready` begin anew (LC 4.6)")
def agent_restart_flaps_nothing(r: Run) -> None:
    """LC T42, T43, PH 9: `started`, `ready`, conditions and counts stay as they were; then a killed main comes back."""
    probes = {
        "startup": {"startupProbe": STARTED},
        "ready": {"readinessProbe": exec_probe(["true"]) | {"periodSeconds": 3}},
        "both": {"startupProbe": STARTED, "readinessProbe": exec_probe(["true"], initialDelaySeconds=1)},
        "unready": {"readinessProbe": exec_probe(["false"])},
    }
    sides = [sidecar(f"side-{n}", script(f"side-{n}"), **p) for n, p in probes.items() if n != "unready"]
    mains = [
        container(n, script(n, until="die", code=1) if n == "startup" else script(n), **p) for n, p in probes.items()
    ]
    r.apply(r.pod(restartPolicy="Always", init=sides, main=mains, terminationGracePeriodSeconds=5))
    r.until_up(*probes)
    r.until(
        "ready", lambda: all(r.cstatus(n)["ready"] for n in ("side-ready", "side-both", "startup", "ready", "both"))
    )

    def picture() -> Json:
        status = r.status() or {}
        everyone = status["initContainerStatuses"] + status["containerStatuses"]
        keys = ("started", "ready", "restartCount", "containerID")
        return {"conditions": status["conditions"], **{c["name"]: [c[k] for k in keys] for c in everyone}}

    before = picture()
    with r.outage():
        pass
    until = uptime() + 4
    while uptime() < until:
        r.same(picture(), before, "something flapped")
        time.sleep(0.05)
    r.release("die")
    r.until_event("startup", "starting", nth=2)
    r.check(all(r.restarts(s["name"]) == 0 for s in sides), "no sidecar was restarted")


@scenario(outage="agent", lasts=16, beyond="its back-off begins anew")
def back_off_survives_the_agent(r: Run) -> None:
    """README 5: a back-off that was under way is kept, and restart counts go on."""
    r.apply(r.pod(restartPolicy="Always", main=[container("main", script("main", run=0.1, code=1))]))
    r.until_event("main", "exiting", 60, nth=2)
    with r.outage():
        pass
    r.until_event("main", "starting", 40, nth=3)
    gap = r.events("main", "starting")[2].at - r.events("main", "exiting")[1].at
    r.check(gap >= 9.9, f"the back-off of 10 s was kept: {gap}")
    r.until("two restarts", lambda: r.restarts("main") == 2)


@scenario(outage="agent", beyond="an orphan's containers are all killed at once, with 2 s (LC 3.3)")
def removed_while_agent_is_down(r: Run) -> None:
    """README 6: a pod whose manifest went while the agent was down is ended in order, with its hooks and its grace."""
    hook = {"lifecycle": {"preStop": {"exec": {"command": shell("main", "j hook")}}}}
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side", on_term=0.5))],
            main=[container("main", script("main", on_term=3), **hook)],
        )
    )
    r.until_up("main")
    with r.outage():
        r.remove()
    r.until_gone()
    r.ordered("main hook", "main term", "main exiting", "side term", "side exiting")


@scenario(outage="agent")
def replaced_while_agent_is_down(r: Run) -> None:
    """LC 12.4: a manifest that was edited while the agent was down replaces its pod."""

    def version(n: int) -> Json:
        return r.pod(restartPolicy="Always", main=[container("main", script(f"v{n}"))])

    r.apply(version(1))
    r.until_up("v1")
    with r.outage():
        r.apply(version(2))
    r.until_event("v2", "started", 60)
    r.ordered("v1 term", "v1 exiting", "v2 starting")


@scenario(outage="agent", beyond="it forgets that the stop is under way")
def agent_down_during_a_stop(r: Run) -> None:
    """README 6: a stop that was under way goes on in its order when the agent is back."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side1", script("side1")), sidecar("side2", script("side2", on_term=1))],
            main=[container("main", script("main", on_term=None, term="until_file go; j exiting; exit 0"))],
            terminationGracePeriodSeconds=60,
        )
    )
    r.until_up("main")
    r.remove()
    r.until_event("main", "term")
    with r.outage():
        pass
    r.never("side2", "term")
    r.release("go")
    r.until_gone()
    r.ordered("main exiting", "side2 term", "side2 exiting", "side1 term")
    r.check(r.count("main", "starting") == 1, "main was not started again")


@scenario(outage="agent", beyond="it may run a finished pod again when its records are gone (LC 12.8)")
def finished_pod_stays_finished(r: Run) -> None:
    """README 5: the final status of a pod outlives the agent; it is not run again."""
    r.apply(r.pod(init=[sidecar("side", script("side"))], main=[container("main", script("main", run=0.1, code=4))]))
    r.until_phase("Failed", 60)
    down = "PodReadyToStartContainers"
    before = r.until("sandbox down", lambda: (s := r.status()) and r.condition(down, s)["status"] == "False" and s)
    with r.outage():
        pass
    r.same(r.status() or {}, before, "the final status has changed")
    r.check(r.count("main", "starting") == 1, "main ran once")
