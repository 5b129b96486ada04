"""How a pod comes to its end by itself, and what its status tells of it then (LC 9, 10.4, 10.5.2, 11)."""

from __future__ import annotations

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import Json, container, pre_stop, script, sidecar

scenario, table = suite.scenario, suite.table


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


@table({"never": "Never", "onfailure": "OnFailure"})
def completion_ignores_running_sidecar(r: Run, policy: str) -> None:
    """LC T17: a sidecar that would run on does not keep the pod from succeeding, and is not restarted."""
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[sidecar("side", script("side"))],
            main=[container("main", script("main", run=1))],
        )
    )
    status = r.until_phase("Succeeded", 60)
    r.check(r.restarts("side", status) == 0 and r.count("side", "starting") == 1, "the sidecar ran once")
    r.check(r.condition("Initialized", status).get("reason") == "PodCompleted", "Initialized for PodCompleted")


@table({"plain": False, "hooks": True})
def sidecars_end_in_reverse(r: Run, hooks: bool) -> None:
    """LC T29, T31: sidecars end one after the other, last first, all Completed; hooks of all begin at once."""
    names = ["side1", "side2", "side3"]

    def hook(name: str) -> Json:
        return {"lifecycle": pre_stop(name, "j hook-begin; sleep 2; j hook-end")} if hooks else {}

    r.apply(
        r.pod(
            init=[sidecar(n, script(n, on_term=0.5), **hook(n)) for n in names],
            main=[container("main", script("main", run=1))],
        )
    )
    status = r.until_phase("Succeeded", 60)
    r.ordered("main exiting", *(f"{n} {what}" for n in reversed(names) for what in ("term", "exiting")))
    for name in names:
        r.check(r.ended(name, status) == (0, "Completed"), f"{name} is Completed")
        if hooks:
            r.ordered("main exiting", f"{name} hook-begin", f"{name} hook-end", f"{name} term")
    for name in names if hooks else ():
        r.ordered(f"{name} hook-begin", "side3 hook-end")  # they begin together


@scenario()
def endless_hooks_of_sidecars(r: Run) -> None:
    """LC T30: sidecars whose preStop hooks never end are told when the grace is over, and killed 2 s later."""
    names = ["side1", "side2", "side3"]
    r.apply(
        r.pod(
            init=[sidecar(n, script(n, on_term=None), lifecycle=pre_stop(n, "j hook; sleep 1000")) for n in names],
            main=[container("main", script("main", run=1))],
            terminationGracePeriodSeconds=3,
        )
    )
    status = r.until_phase("Succeeded", 60)
    done = r.first("main", "exiting")
    for name in names:
        r.check(r.first(name, "hook") >= done, f"the hook of {name} ran after main's end")
        r.check(r.first(name, "term") - done >= 3, f"{name} was told when the grace was over")
        r.check(r.ended(name, status) == (137, "Error"), f"{name} was killed")
    terms = [r.first(n, "term") for n in names]
    r.check(max(terms) - min(terms) < 2, f"all are told together: {terms}")


@scenario()
def no_grace_no_hooks(r: Run) -> None:
    """PH 11.47: with grace 0 a sidecar of a pod that is done gets SIGTERM at once, its hook does not run."""
    side = sidecar("side", script("side"), lifecycle=pre_stop("side", "j hook"))
    r.apply(r.pod(init=[side], main=[container("main", script("main", run=1))], terminationGracePeriodSeconds=0))
    r.until_phase("Succeeded", 60)
    r.ordered("main exiting", "side term")
    r.never("side", "hook")


#: What holds the pod in `deadline`: policy, init container that never ends.
DEADLINES = {"main": ("Never", False), "always": ("Always", False), "init": ("Always", True)}


@table(DEADLINES, lasts=14)
def deadline(r: Run, row: tuple[str, bool]) -> None:
    """LC 10.5.2: activeDeadlineSeconds ends the pod as Failed for DeadlineExceeded, under Always and in init too."""
    policy, during_init = row
    hang = [container("init", script("init", on_term=0.5))] if during_init else []
    r.apply(
        r.pod(
            restartPolicy=policy,
            activeDeadlineSeconds=8,
            init=[sidecar("side", script("side")), *hang],
            main=[container("main", script("main", on_term=0.5))],
        )
    )
    status = r.until_phase("Failed", 60)
    r.check(status.get("reason") == "DeadlineExceeded", f"reason DeadlineExceeded, got {status.get('reason')}")
    message = "Pod was active on the node longer than the specified deadline"
    r.check(status.get("message") == message, f"message {message!r}")
    r.until_told("DeadlineExceeded", message)
    r.until_event("side", "exiting")
    last = "init" if during_init else "main"
    r.until(f"{last} has ended", lambda: r.ended(last) == (0, "Completed"))
    r.check(r.count("side", "starting") == 1 and r.count("main", "starting") == (not during_init), "none was restarted")


@scenario()
def running_from_the_first(r: Run) -> None:
    """PH 11.1: without probes a container is started and ready in the first status that shows it running."""
    r.apply(r.pod(main=[container("main", script("main"))], terminationGracePeriodSeconds=5))
    status = r.until("running", lambda: (s := r.status()) and "running" in r.cstatus("main", s)["state"] and s, 60)
    main = r.cstatus("main", status)
    r.check(main["started"] and main["ready"], "started and ready")
    r.check(r.condition("Ready", status)["status"] == "True", "the pod is Ready")


@scenario()
def ends_by_itself(r: Run) -> None:
    """PH 11.44, LC 11.2: a container that ends by itself has no preStop run; codes and reasons are the runtime's."""
    r.apply(
        r.pod(
            main=[
                container("gone", script("gone", run=0.5, code=7), lifecycle=pre_stop("gone", "j hook")),
                container("absent", ["/no/such/program"]),
            ]
        )
    )
    status = r.until_phase("Failed", 60)
    r.check(r.ended("gone", status) == (7, "Error"), "code 7, Error")
    r.check(r.ended("absent", status) == (128, "StartError"), "what cannot be executed is a StartError with 128")
    names = [c["name"] for c in status["containerStatuses"]]
    r.check(names == sorted(names), "container statuses are sorted by name")
    r.never("gone", "hook")
