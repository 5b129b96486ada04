"""What becomes of a pod whose sandbox dies: a killed pause process, a reboot of the node (LC 3.2, 3.3, README 8)."""

from __future__ import annotations

import os
import signal

from tests.conformance.harness.host import pauses
from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import POLICIES, container, script, sidecar

scenario, table = suite.scenario, suite.table


def kill_pause(r: Run) -> None:
    found = r.until("the pause process", lambda: pauses(r.dir))
    r.check(len(found) == 1, f"one pause process: {found}")
    os.kill(found[0], signal.SIGKILL)


@table(POLICIES, lasts=10)
def sandbox_dies(r: Run, policy: str) -> None:
    """LC 3.2, 3.3: the living containers are ended in order; but for Never all begins again in a new sandbox."""
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[
                container("init", script("init", run=0.1)),
                sidecar("side1", script("side1")),
                sidecar("side2", script("side2")),
            ],
            main=[
                container("main", script("main", on_term=0.5, term_code=1)),
                container("done", script("done", run=0)),
            ],
        )
    )
    r.until_up("main")
    r.until_event("done", "exiting")
    kill_pause(r)
    r.until_event("side1", "exiting")
    r.ordered("main term", "main exiting", "side2 term", "side2 exiting", "side1 term")
    if policy == "Never":
        status = r.until_phase("Failed")
        r.check(r.ended("main", status)[0] == 1, "the phase follows from the exit codes")
        r.check(r.count("init", "starting") == 1 and r.count("main", "starting") == 1, "nothing was started again")
        return
    r.until_event("main", "started", 60, nth=2)
    again = [r.events(n, "starting")[1].at for n in ("init", "side1", "side2", "main")]
    r.check(again == sorted(again), f"all again in order: {again}")
    r.until("restart counts of mains go on", lambda: r.restarts("main") == 1)
    r.until_told("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
    if policy == "OnFailure":
        r.check(r.count("done", "starting") == 1, "what exited 0 is not run again")
    else:
        r.until_event("done", "starting", 40, nth=2)


@scenario(beyond="the pod stays Running for ever")
def sandbox_of_never_pod_with_always_container(r: Run) -> None:
    """README 8: with pod policy Never the phase follows from the exit codes, whatever the container's own policy."""
    r.apply(r.pod(main=[container("main", script("main"), restartPolicy="Always")]))
    r.until_up("main")
    kill_pause(r)
    status = r.until_phase("Succeeded")
    r.check(r.ended("main", status) == (0, "Completed"), "Completed")
    r.check(r.count("main", "starting") == 1, "not started again")
