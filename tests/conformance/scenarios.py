#!/usr/bin/env python3
"""Lifecycle scenarios: native sidecars, probes, restarts, termination, completion.

Every expectation here was seen to hold on a real kubelet (v1.36, standalone
mode, containerd), except in the scenarios marked `beyond`, which say what the
kubelet lacks.  Run `./scenarios.py --help`.
"""

from __future__ import annotations

import itertools
import sys

from tests.conformance.harness import (
    STARTED,
    Json,
    Run,
    Suite,
    container,
    exec_probe,
    main,
    script,
    shell,
    sidecar,
    uptime,
)

#: The body of a container whose first life ends at once with code 1.
FAIL_ONCE = (
    "n=$(cat /journal/n 2>/dev/null || echo 0); echo $((n+1)) >/journal/n; [ $n -ge 1 ] || { j failing; exit 1; }"
)

suite = Suite()
scenario = suite.scenario


# ---- start order and gating ------------------------------------------------
@scenario()
def start_order(r: Run) -> None:
    """Init containers and sidecars start in list order, each gated by the one before."""
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
    """What follows a sidecar waits until its startup probe succeeds; 'started' tells."""
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
    """A sidecar's postStart hook must end before what follows starts."""
    hook = {"postStart": {"exec": {"command": shell("side", "j hook-begin; sleep 3; j hook-end")}}}
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


# ---- completion --------------------------------------------------------------
@scenario()
def completion_with_sidecars(r: Run) -> None:
    """When the main containers are done the sidecars end in reverse order and the pod succeeds."""
    r.apply(
        r.pod(
            init=[
                sidecar("side1", script("side1", on_term=1, term_code=7)),
                sidecar("side2", script("side2", on_term=1)),
            ],
            main=[container("main", script("main", run=2))],
        )
    )
    status = r.until_phase("Succeeded", 60)
    r.ordered("main exiting", "side2 term", "side2 exiting", "side1 term", "side1 exiting")
    r.check(r.cstatus("side1", status)["state"]["terminated"]["exitCode"] == 7, "side1's exit code is kept")
    r.check(r.cstatus("main", status)["state"]["terminated"]["reason"] == "Completed", "main is Completed")
    r.check(r.condition("Ready", status)["reason"] == "PodCompleted", "Ready is False for PodCompleted")
    r.measure("main_exit_to_term", r.first("side2", "term") - r.first("main", "exiting"))
    r.measure("side2_exit_to_side1_term", r.first("side1", "term") - r.first("side2", "exiting"))


@scenario()
def main_fails(r: Run) -> None:
    """A main container's failure makes the pod Failed under restartPolicy Never; sidecars still end."""
    r.apply(
        r.pod(
            init=[sidecar("side", script("side"))],
            main=[container("main", script("main", run=1, code=3)), container("ok", script("ok", run=3))],
        )
    )
    status = r.until_phase("Failed", 60)
    end = r.cstatus("main", status)["state"]["terminated"]
    r.check((end["exitCode"], end["reason"]) == (3, "Error"), "exit code 3, reason Error")
    r.ordered("main exiting", "ok exiting", "side term", "side exiting")


@scenario()
def last_log_lines_arrive(r: Run) -> None:
    """A log shipper in a sidecar gets every line of a job, the last one too."""
    volume = [{"name": "logs", "emptyDir": {}}]
    mount = [{"name": "logs", "mountPath": "/logs"}]
    ship = (
        "touch /logs/app; tail -n +1 -f /logs/app >>/journal/shipped & T=$!; "
        "trap 'j term; sleep 1; kill $T; j exiting; exit 0' TERM"
    )
    work = (
        'i=0; while [ $i -lt 2000 ]; do echo "line $i" >>/logs/app; i=$((i+1)); done; echo "the last line" >>/logs/app'
    )
    r.apply(
        r.pod(
            init=[sidecar("shipper", script("shipper", body=ship), volumeMounts=mount)],
            main=[container("job", script("job", body=work, run=0), volumeMounts=mount)],
            volumes=volume,
        )
    )
    r.until_phase("Succeeded", 60)
    shipped = (r.dir / "shipped").read_text().splitlines()
    r.check(len(shipped) == 2001 and shipped[-1] == "the last line", f"2001 lines shipped, got {len(shipped)}")
    r.ordered("job exiting", "shipper term")


# ---- restarts ----------------------------------------------------------------
@scenario()
def sidecar_restarts(r: Run) -> None:
    """A sidecar that exits is restarted under every pod policy and never restarts the main container."""
    r.apply(
        r.pod(
            init=[sidecar("zero", script("zero", run=1)), sidecar("one", script("one", run=1, code=1))],
            main=[container("main", script("main", run=25))],
        )
    )
    status = r.until_phase("Succeeded", 90)
    for name in ("zero", "one"):
        r.check(r.cstatus(name, status)["restartCount"] >= 1, f"{name} was restarted")
        r.check(len(r.events(name, "starting")) >= 2, f"{name} started again")
    r.check(r.cstatus("main", status)["restartCount"] == 0 and len(r.events("main", "starting")) == 1, "main ran once")


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


@scenario(beyond="its /pods goes on showing the terminated state until the back-off is over")
def always_restarts_with_backoff(r: Run) -> None:
    """restartPolicy Always restarts at a growing distance and says CrashLoopBackOff meanwhile."""
    r.apply(r.pod(restartPolicy="Always", main=[container("main", script("main", run=0.1, code=1))]))
    r.until_event("main", "starting", 90, nth=4)
    starts = [e.at for e in r.events("main", "starting")]
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    r.check(gaps[1] >= 9 and gaps[2] >= 18, f"gaps grow as 10, 20 s after the first quick restart: {gaps}")
    r.until("CrashLoopBackOff", lambda: r.cstatus("main")["state"]["waiting"]["reason"] == "CrashLoopBackOff", 2)
    r.check("back-off" in r.cstatus("main")["state"]["waiting"]["message"], "the message speaks of back-off")
    r.check(r.cstatus("main")["lastState"]["terminated"]["exitCode"] == 1, "lastState shows the crash")
    r.measure("first_restart", gaps[0])


@scenario()
def init_failure_never(r: Run) -> None:
    """A failed init container fails a restartPolicy Never pod; its sidecar is ended, main never starts."""
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
    """With restartPolicy Always a failed init container is retried; the running sidecar before it is left alone."""
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


# ---- probes --------------------------------------------------------------------
@scenario()
def liveness_restarts_sidecar(r: Run) -> None:
    """A failing liveness probe restarts the sidecar and leaves the main container alone."""
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
    """A startup probe that runs out of tries kills and restarts the sidecar; nothing after it starts meanwhile."""
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


@scenario()
def readiness_of_sidecar_counts(r: Run) -> None:
    """The readiness of a sidecar is part of the pod's Ready condition."""
    r.apply(
        r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script("side"), readinessProbe=exec_probe(["cat", "/journal/ready"]))],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("main", "started", 40)
    status = r.until_phase("Running")
    r.check(r.condition("Ready", status)["status"] == "False", "not Ready while the sidecar is not")
    r.check("side" in r.condition("Ready", status).get("message", ""), "the message names the sidecar")
    (r.dir / "ready").touch()
    r.until("Ready", lambda: r.condition("Ready")["status"] == "True", 10)
    (r.dir / "ready").unlink()
    r.until("not Ready again", lambda: r.condition("Ready")["status"] == "False", 15)


@scenario()
def http_and_tcp_probes(r: Run) -> None:
    """httpGet and tcpSocket probes reach the container on the pod's address, by number and by port name."""
    serve = script("web", delay=2, body="mkdir -p /tmp/www; echo ok >/tmp/www/healthz; httpd -p 8080 -h /tmp/www")
    r.apply(
        r.pod(
            restartPolicy="Always",
            main=[
                container(
                    "web",
                    serve,
                    ports=[{"name": "http", "containerPort": 8080}],
                    startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 30},
                    readinessProbe={"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
                )
            ],
        )
    )
    r.until("Ready", lambda: r.condition("Ready")["status"] == "True", 40)
    r.check(r.first("web", "started") <= uptime(), "ready only after it listened")


# ---- termination -----------------------------------------------------------------
@scenario()
def delete_in_reverse_order(r: Run) -> None:
    """Removing the manifest ends main containers first, then the sidecars one by one, last started first."""
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
    """At termination every preStop hook starts at once; SIGTERM still goes to sidecars in reverse order."""

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
    """When main eats the grace period, everything is still told to stop and then killed soon after."""
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


@scenario()
def changed_manifest_replaces(r: Run) -> None:
    """A changed manifest makes a new pod: the old one ends in order before the new one starts."""

    def version(n: int) -> Json:
        return r.pod(
            restartPolicy="Always",
            init=[sidecar("side", script(f"side-v{n}", on_term=1))],
            main=[container("main", script(f"main-v{n}", on_term=1))],
        )

    r.apply(version(1))
    r.until_event("main-v1", "started", 60)
    first = r.until_phase("Running")["uid"]
    r.apply(version(2))
    r.until_event("main-v2", "started", 60)
    r.ordered(
        "main-v1 term", "main-v1 exiting", "side-v1 term", "side-v1 exiting", "side-v2 starting", "main-v2 starting"
    )
    r.check(r.until_phase("Running")["uid"] != first, "the new pod has another uid")


@scenario()
def deadline(r: Run) -> None:
    """activeDeadlineSeconds ends the pod as Failed with reason DeadlineExceeded."""
    r.apply(
        r.pod(
            activeDeadlineSeconds=4,
            init=[sidecar("side", script("side"))],
            main=[container("main", script("main"))],
        )
    )
    status = r.until_phase("Failed", 60)
    r.check(status.get("reason") == "DeadlineExceeded", f"reason DeadlineExceeded, got {status.get('reason')}")
    r.until_event("side", "exiting")


@scenario()
def termination_message(r: Run) -> None:
    """What a container writes to its termination message path is in its status, and logs serve as fallback."""
    r.apply(
        r.pod(
            main=[
                container("file", script("file", body="echo 'all is well' >/dev/termination-log", run=0.1)),
                container(
                    "logs",
                    script("logs", body="echo 'went wrong here'", run=0.1, code=1),
                    terminationMessagePolicy="FallbackToLogsOnError",
                ),
            ]
        )
    )
    status = r.until_phase("Failed", 60)
    r.check(
        r.cstatus("file", status)["state"]["terminated"].get("message", "").strip() == "all is well",
        "message from the file",
    )
    r.check(
        "went wrong here" in r.cstatus("logs", status)["state"]["terminated"].get("message", ""), "message from the log"
    )


# ---- the agent itself stops and comes back ---------------------------------------
@scenario(alone=True)
def agent_restart_leaves_pods_alone(r: Run) -> None:
    """Killing and restarting the agent restarts no container and re-runs no init container."""
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
    r.agent.halt()
    r.agent.boot()
    status = r.until("Ready again", lambda: (s := r.status()) and r.condition("Ready", s)["status"] == "True" and s, 30)
    r.check({n: r.cstatus(n, status)["containerID"] for n in before} == before, "the same containers")
    r.check(len(r.events("init", "starting")) == 1, "init ran once")


@scenario(alone=True)
def agent_down_while_main_ends(r: Run) -> None:
    """A pod whose main container ended while the agent was down is finished in order when it is back."""
    r.apply(
        r.pod(
            init=[sidecar("side1", script("side1")), sidecar("side2", script("side2"))],
            main=[container("main", script("main", run=5))],
        )
    )
    r.until_event("main", "started", 60)
    r.until_phase("Running")
    r.agent.halt()
    r.until_event("main", "exiting", 20)
    r.never("side2", "term")
    r.agent.boot()
    r.until_phase("Succeeded", 30)
    r.ordered("main exiting", "side2 term", "side2 exiting", "side1 term")
    r.check(len(r.events("main", "starting")) == 1, "main ran once")


if __name__ == "__main__":
    sys.exit(main(suite))
