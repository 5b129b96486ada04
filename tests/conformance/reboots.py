"""The node reboots, or containerd restarts (LC 3.3, T13, T41, U10)."""

from __future__ import annotations

from tests.conformance.harness.host import kill_pod
from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    OTHER_IMAGE,
    POLICIES,
    STARTED,
    Json,
    container,
    exec_probe,
    file_probe,
    script,
    sidecar,
)

scenario, table = suite.scenario, suite.table


@table(POLICIES, outage="agent")
def node_reboots(r: Run, policy: str) -> None:
    """LC T13, T41, 3.3: after a reboot all runs again in order, init containers too; nothing does under Never."""
    names = ["init1", "side", "init3"]
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[
                container("init1", script("init1", run=0.1)),
                sidecar("side", script("side", delay=0.5), startupProbe=STARTED),
                container("init3", script("init3", run=0.1)),
            ],
            main=[container("main", script("main"))],
        )
    )
    r.until_up("main")
    with r.outage():
        kill_pod(r.dir)
    if policy == "Never":
        status = r.until_phase("Failed")
        r.check(r.ended("main", status)[0] != 0, "main was lost")
        r.check(all(r.count(n, "starting") == 1 for n in (*names, "main")), "nothing ran again")
        return
    r.until_event("main", "started", 60, nth=2)
    again = [r.events(n, "starting")[1].at for n in (*names, "main")]
    r.check(again == sorted(again), f"all again in order: {again}")
    r.check(r.events("side", "started")[1].at <= r.events("init3", "starting")[1].at, "the probe gates again")
    r.until("one restart", lambda: r.restarts("main") == 1)


@table({"restart": False, "reboot": True}, outage="agent")
def image_edited_while_agent_is_down(r: Run, reboot: bool) -> None:
    """LC U10: a sidecar's image that changed while the agent was down is used, in the right order."""

    def version(image: str) -> Json:
        side = sidecar("side", script("side"), image=image)
        init = container("init", script("init", run=0.1))
        return r.pod(
            restartPolicy="Always", init=[side, init], main=[container("main", script("main"))], uid=f"uid-{r.name}"
        )

    r.apply(version("busybox:1.36"))
    r.until_up("main")
    with r.outage():
        r.apply(version(OTHER_IMAGE))
        if reboot:
            kill_pod(r.dir)
    r.until_event("side", "started", 60, nth=2)
    r.until("the new image", lambda: r.cstatus("side")["image"].endswith(OTHER_IMAGE))
    runs = 2 if reboot else 1
    r.until_event("main", "started", nth=runs)
    r.check(r.count("main", "starting") == r.count("init", "starting") == runs, f"the others ran {runs} times")
    if reboot:
        again = [r.events(n, "starting")[1].at for n in ("side", "init", "main")]
        r.check(again == sorted(again), f"in order: {again}")


@scenario(outage="runtime")
def runtime_restarts(r: Run) -> None:
    """LC 3.3: a restart of containerd restarts no container and fails no probe; exits meanwhile are seen."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side"), livenessProbe=exec_probe(["true"], failureThreshold=1))],
            main=[
                container("main", script("main", until="die", code=1)),
                container("probed", script("probed"), readinessProbe=file_probe("ready")),
            ],
        )
    )
    r.release("ready")
    r.until_up("main", "probed")
    r.until_ready()
    before = {n: r.cstatus(n)["containerID"] for n in ("side", "probed")}
    with r.outage():
        r.release("die")
        r.until_event("main", "exiting")
        r.withdraw("die")
    r.until_event("main", "starting", 60, nth=2)
    status = r.until_ready()
    r.check({n: r.cstatus(n, status)["containerID"] for n in before} == before, "the others are the same containers")
    r.check(r.restarts("main", status) == 1, "main was restarted once")


@scenario(outage="runtime")
def removed_while_runtime_is_down(r: Run) -> None:
    """LC 3.3: a pod removed while containerd is down ends in order when it is back."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side"))],
            main=[container("main", script("main", on_term=0.5))],
        )
    )
    r.until_up("main")
    with r.outage():
        r.remove()
    r.until_gone()
    r.ordered("main term", "main exiting", "side term", "side exiting")


@scenario(outage="runtime")
def dropped_while_runtime_is_down(r: Run) -> None:
    """A manifest that came while containerd was down runs when it is back."""
    with r.outage():
        r.apply(r.pod(main=[container("main", script("main", run=0.1))]))
    r.until_phase("Succeeded", 60)
