"""What starts after what: init containers, sidecars and their gates, regular containers (LC 4, 5.1, 13)."""

from __future__ import annotations

import contextlib
import socket

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    STARTED,
    container,
    exec_probe,
    fails,
    file_probe,
    post_start,
    script,
    sidecar,
)

scenario, table = suite.scenario, suite.table

#: Free on a host that runs nothing else.
HOST_PORT = 28099


@scenario()
def start_order(r: Run) -> None:
    """LC T16: init containers and sidecars start in list order, each gated by the one before."""
    r.apply(
        r.pod(
            init=[
                container("init1", script("init1", run=1)),
                sidecar("side1", script("side1", delay=2), startupProbe=STARTED),
                container("init2", script("init2", run=1)),
                sidecar("side2", script("side2", delay=1), startupProbe=STARTED),
                container("init3", script("init3", run=0.2)),
            ],
            main=[container("main1", script("main1", run=2)), container("main2", script("main2", run=2))],
        )
    )
    r.until_event("main2", "started", 60)
    status = r.until("phase Running", lambda: (s := r.status()) and s["phase"] == "Running" and s)
    r.check(
        all(c["started"] for c in status["initContainerStatuses"] if c["name"].startswith("side")),
        "sidecars are started",
    )
    r.until_phase("Succeeded")
    r.ordered(
        "init1 starting",
        "init1 exiting",
        "side1 starting",
        "side1 started",
        "init2 starting",
        "init2 exiting",
        "side2 starting",
        "side2 started",
        "init3 starting",
        "init3 exiting",
        "main1 starting",
    )
    r.ordered("init3 exiting", "main2 starting")
    r.ordered("main1 exiting", "side2 term")
    r.measure("drop_to_first_start", r.first("init1", "starting") - r.dropped_at)
    r.measure("init1_exit_to_side1", r.first("side1", "starting") - r.first("init1", "exiting"))
    r.measure("init3_exit_to_main", r.first("main1", "starting") - r.first("init3", "exiting"))
    r.measure("main_exit_to_side_term", r.first("side2", "term") - r.last("main1", "exiting"))


@scenario()
def startup_probe_gates(r: Run) -> None:
    """PH 11.26: what follows a sidecar waits until its startup probe succeeds; 'started' tells."""
    r.apply(
        r.pod(
            init=[
                sidecar("side", script("side", delay=5), startupProbe=STARTED),
                container("after", script("after", run=0.1)),
            ],
            main=[container("main", script("main", run=1))],
        )
    )
    r.until_event("side", "starting", 40)
    r.until(
        "side running and not started", lambda: "running" in (c := r.cstatus("side"))["state"] and c["started"] is False
    )
    r.check((r.status() or {}).get("phase") == "Pending", "the pod is Pending while it initialises")
    r.check(r.condition("Initialized")["status"] == "False", "Initialized is False")
    r.never("after", "starting")
    r.until_phase("Succeeded", 60)
    r.ordered("side started", "after starting", "after exiting", "main starting")
    r.measure("probe_ok_to_next", r.first("after", "starting") - r.first("side", "started"))


@scenario()
def sidecar_without_probe(r: Run) -> None:
    """A sidecar with no startup probe lets the next container start as soon as it runs."""
    r.apply(
        r.pod(
            init=[sidecar("side", script("side", delay=6))],
            main=[container("main", script("main", run=8))],
        )
    )
    r.until_phase("Succeeded", 60)
    r.ordered("side starting", "main starting", "side started")


@scenario()
def sidecar_chain(r: Run) -> None:
    """Five probeless sidecars and a main container come up one after the other."""
    names = [f"side{i}" for i in range(1, 6)]
    r.apply(r.pod(init=[sidecar(n, script(n)) for n in names], main=[container("main", script("main", run=1))]))
    r.until_phase("Succeeded", 60)
    r.ordered(*(f"{n} starting" for n in names), "main starting")
    r.ordered("main exiting", *(f"{n} term" for n in reversed(names)))
    r.measure("chain_start", r.first("main", "starting") - r.dropped_at)
    r.measure("chain_stop", r.last("side1", "exiting") - r.first("main", "exiting"))


@scenario()
def sidecar_chain_probed(r: Run) -> None:
    """Three sidecars that are each gated by a one-second startup probe."""
    names = [f"side{i}" for i in range(1, 4)]
    r.apply(
        r.pod(
            init=[sidecar(n, script(n), startupProbe=STARTED) for n in names],
            main=[container("main", script("main", run=1))],
        )
    )
    r.until_phase("Succeeded", 60)
    r.ordered(*(f"{n} starting" for n in names), "main starting")
    r.measure("chain_start", r.first("main", "starting") - r.dropped_at)


@scenario()
def post_start_gates(r: Run) -> None:
    """PH 11.38: a sidecar's postStart hook must end before what follows starts."""
    hook = post_start("side", "j hook-begin; sleep 2; j hook-end")
    r.apply(
        r.pod(
            init=[sidecar("side", script("side"), lifecycle=hook)],
            main=[container("main", script("main", run=1))],
        )
    )
    r.until_phase("Succeeded", 60)
    r.ordered("side hook-begin", "side hook-end", "main starting")


@scenario()
def init_uses_sidecar(r: Run) -> None:
    """A later init container can already use a service that an earlier sidecar serves on localhost."""
    serve = script("proxy", body="j listening; while :; do echo pong | nc -l -p 15001; done & touch /tmp/up")
    ask = script("ask", body='answer=$(nc -w 5 127.0.0.1 15001 </dev/null); j "got $answer"', run=0.1)
    r.apply(
        r.pod(
            init=[
                sidecar("proxy", serve, startupProbe=exec_probe(["cat", "/tmp/up"], failureThreshold=30)),
                container("ask", ask),
            ],
            main=[container("main", script("main", run=0.5))],
        )
    )
    r.until_phase("Succeeded", 60)
    r.check(r.events("ask", "got pong"), "the init container got the sidecar's answer")


@scenario()
def init_containers_in_turn(r: Run) -> None:
    """LC T01: init containers run strictly one after the other, each exits before the next starts."""
    names = ["init1", "init2", "init3"]
    r.apply(
        r.pod(init=[container(n, script(n, run=0.5)) for n in names], main=[container("main", script("main", run=0))])
    )
    r.until_phase("Succeeded", 60)
    r.ordered(*(f"{n} {what}" for n in names for what in ("starting", "exiting")), "main starting")


@scenario()
def post_start_after_init(r: Run) -> None:
    """LC T03: a regular container's postStart hook runs after the init containers have ended."""
    main = container("main", script("main", run=2), lifecycle=post_start("main", "j hook"))
    r.apply(r.pod(init=[container("init", script("init", run=0.5))], main=[main]))
    r.until_phase("Succeeded", 60)
    r.ordered("init exiting", "main hook", "main exiting")


@scenario()
def post_start_holds_back_next_main(r: Run) -> None:
    """LC T05, PH 11.36: the next regular container starts when the postStart hook has ended; until then both wait."""
    hook = post_start("first", "j hook-begin; until_file go; j hook-end")
    r.apply(
        r.pod(
            main=[container("first", script("first"), lifecycle=hook), container("second", script("second"))],
            terminationGracePeriodSeconds=5,
        )
    )
    r.until_event("first", "hook-begin", 60)
    r.until("both wait", lambda: {r.waiting(n)["reason"] for n in ("first", "second")} == {"ContainerCreating"})
    r.never("second", "starting")
    r.release("go")
    r.until_up("first", "second")
    r.ordered("first starting", "first hook-end", "second starting")


@scenario()
def next_waits_for_last_probe(r: Run) -> None:
    """LC T26: a sidecar starts when the one before it is started, main when the last one is."""
    r.apply(
        r.pod(
            init=[sidecar(n, script(n), startupProbe=file_probe(n, failureThreshold=60)) for n in ("side1", "side2")],
            main=[container("main", script("main", run=0))],
        )
    )

    def not_started(name: str) -> bool:
        return r.cstatus(name)["started"] is False

    r.until_event("side1", "started", 60)
    r.until("side1 is not started", lambda: not_started("side1"))
    r.never("side2", "starting")
    r.release("side1")
    r.until_event("side2", "started")
    r.until("side2 is not started", lambda: not_started("side2"))
    r.check(r.cstatus("side1")["started"], "side1 is started")
    r.never("main", "starting")
    r.release("side2")
    r.until_phase("Succeeded", 60)


@scenario()
def neither_readiness_nor_liveness_gates(r: Run) -> None:
    """LC 4.2.2: a sidecar that is not ready and fails its liveness probe lets the next container start."""
    side = sidecar(
        "side",
        script("side"),
        readinessProbe=exec_probe(["false"]),
        livenessProbe=fails(),
    )
    r.apply(r.pod(init=[side], main=[container("main", script("main"))], terminationGracePeriodSeconds=5))
    r.until_up("main")
    r.until_event("side", "term")
    r.check(r.restarts("main") == 0, "main was left alone")


@scenario(beyond="it maps the ports of regular containers only")
def host_port_of_sidecar(r: Run) -> None:
    """README 10: a sidecar's hostPort is mapped like that of a regular container."""
    side = sidecar(
        "side", script("side", body="httpd -p 8080 -h /tmp"), ports=[{"containerPort": 8080, "hostPort": HOST_PORT}]
    )
    r.apply(r.pod(init=[side], main=[container("main", script("main"))], terminationGracePeriodSeconds=5))
    status = r.until_up("main")

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((status["hostIP"], HOST_PORT), timeout=2):
            return True
        return False

    r.until("the port answers on the host", answers)
