"""What happens to a pod whose containers cannot start, or fail before the others had their turn (LC 4.3, 6)."""

from __future__ import annotations

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    POLICIES,
    Maker,
    container,
    post_start,
    script,
    sidecar,
)

scenario, table = suite.scenario, suite.table


#: Nothing listens there, so the pull fails at once.
NO_IMAGE = "127.0.0.1:1/nosuch:1"


@table({"init": container, "sidecar": sidecar})
def nothing_follows_failed_init(r: Run, make: Maker) -> None:
    """LC T02, T22: under Never a failed init container fails the pod; what follows it never starts."""
    r.apply(
        r.pod(
            init=[container("init1", script("init1", run=0.2, code=1)), make("second", script("second"))],
            main=[container("main", script("main"))],
        )
    )
    status = r.until_phase("Failed", 60)
    r.check(r.ended("init1", status) == (1, "Error"), "init1 ended with 1")
    for name in ("second", "main"):
        r.never(name, "starting")
        r.check(r.waiting(name)["reason"] == "PodInitializing", f"{name} is shown as PodInitializing")


@table({"init-never": (container, "Never"), **{f"sidecar-{k}": (sidecar, p) for k, p in POLICIES.items()}})
def image_cannot_be_had(r: Run, row: tuple[Maker, str]) -> None:
    """LC T06, T19: a first entry whose image cannot be pulled keeps the pod Pending; nothing else starts."""
    make, policy = row
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[make("first", script("first"), image=NO_IMAGE)],
            main=[container("main", script("main"))],
        )
    )
    r.until("ImagePullBackOff", lambda: r.waiting("first")["reason"] == "ImagePullBackOff", 60)
    r.until_told("Failed", f'Failed to pull image "{NO_IMAGE}": ', who="first")
    r.until_told("Failed", "Error: ErrImagePull", who="first")
    r.until_told("BackOff", f'Back-off pulling image "{NO_IMAGE}"', who="first")
    r.check((r.status() or {}).get("phase") == "Pending", "the pod is Pending")
    r.check(r.waiting("main")["reason"] == "PodInitializing", "main is PodInitializing")
    r.never("main", "starting")


@scenario()
def image_never_pulled(r: Run) -> None:
    """LC 6.1, 9.1: a main that cannot start shows why, holds back no other main, and keeps the pod from its end."""
    absent = container("absent", script("absent"), image=NO_IMAGE, imagePullPolicy="Never")
    r.apply(r.pod(main=[absent, container("main", script("main", run=0.5))]))
    r.until("ErrImageNeverPull", lambda: r.waiting("absent")["reason"] == "ErrImageNeverPull", 60)
    message = f'Container image "{NO_IMAGE}" is not present with pull policy of Never'
    r.check(r.waiting("absent")["message"] == message, f"the message is {message!r}")
    r.until("main ended", lambda: r.ended("main") == (0, "Completed"))
    r.check((r.status() or {}).get("phase") == "Pending", "the pod is Pending")


@scenario(lasts=14)
def failing_post_start_of_sidecar(r: Run) -> None:
    """PH 11.38, LC 6.5: a sidecar whose postStart hook fails is killed and begun again; main never starts."""
    side = sidecar("side", script("side", term_code=1), lifecycle=post_start("side", "j hook; when_started; exit 1"))
    r.apply(r.pod(init=[side], main=[container("main", script("main"))]))
    r.until_event("side", "hook", 60, nth=2)
    r.until("back-off", lambda: r.waiting("side")["reason"] == "CrashLoopBackOff")
    r.until_told("FailedPostStartHook", "PostStartHook failed", who="side")
    r.check((r.status() or {}).get("phase") == "Pending", "the pod is Pending")
    r.never("main", "starting")


@table({k: p for k, p in POLICIES.items() if p != "Never"}, lasts=8)
def failing_init_keeps_trying(r: Run, policy: str) -> None:
    """LC T23, T25: a failing init container is retried; a sidecar before it runs on, one behind it never starts."""
    r.apply(
        r.pod(
            restartPolicy=policy,
            init=[
                sidecar("before", script("before")),
                container("init", script("init", run=0.2, code=1)),
                sidecar("behind", script("behind")),
            ],
            main=[container("main", script("main"))],
        )
    )
    r.until_event("init", "exiting", 60, nth=2)
    r.until("restarted", lambda: r.restarts("init") >= 1)
    r.until_told("BackOff", "Back-off restarting failed container init in pod", who="init")
    status = r.status() or {}
    r.check(status["phase"] == "Pending", "the pod is Pending")
    r.check(r.restarts("before", status) == 0 and "running" in r.cstatus("before", status)["state"], "before runs on")
    r.check(r.condition("Initialized", status)["status"] == "False", "not Initialized")
    for name in ("behind", "main"):
        r.never(name, "starting")
