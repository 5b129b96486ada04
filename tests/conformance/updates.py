"""Edits of a pod with a fixed uid are updates in place: only a new image restarts anything (LC 4.5, U1 to U5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    IMAGE,
    OTHER_IMAGE,
    POLICIES,
    Json,
    container,
    file_probe,
    script,
)

scenario, table = suite.scenario, suite.table

#: Makes the pod with that image where the scenario wants it, and with more in its spec.
Version = Callable[..., Json]


def edit(r: Run, version: Version, **spec: Any) -> None:
    """Ask for the other image, and wait until the agent has read that."""
    r.apply(version(OTHER_IMAGE, **spec))
    r.until("the edit is read", lambda: OTHER_IMAGE in str([pod["spec"] for pod in r.pods().values()]))


#: With this added to its spec a pod is past its deadline, so it ends, and stays in the folder.
PAST: Json = {"activeDeadlineSeconds": 1}


def runs_other_image(r: Run, name: str) -> None:
    r.until(
        f"{name} runs {OTHER_IMAGE}",
        lambda: "running" in (c := r.cstatus(name))["state"] and c["image"].endswith(OTHER_IMAGE),
        40,
    )


@table(POLICIES)
def image_of_running_main(r: Run, policy: str) -> None:
    """LC U1: a new image restarts its container under every policy, and no other."""

    def version(image: str) -> Json:
        mains = [container("main", script("main"), image=image), container("other", script("other"))]
        return r.pod(restartPolicy=policy, main=mains, uid=f"uid-{r.name}")

    r.apply(version(IMAGE))
    r.until_up("main", "other")
    edit(r, version)
    r.until_event("main", "starting", nth=2)
    r.ordered("main term", "main exiting")
    runs_other_image(r, "main")
    r.until_told("Killing", "Container main definition changed, will be restarted", who="main")
    r.check(r.restarts("other") == 0 and r.count("other", "starting") == 1, "the other was left alone")


@table(POLICIES)
def image_of_main_during_init(r: Run, policy: str) -> None:
    """LC U2: a main whose image changes before it started starts once, with the new one."""

    def version(image: str) -> Json:
        return r.pod(
            restartPolicy=policy,
            init=[container("init", script("init", until="go"))],
            main=[container("main", script("main"), image=image)],
            uid=f"uid-{r.name}",
        )

    r.apply(version(IMAGE))
    r.until_event("init", "started", 60)
    edit(r, version)
    r.release("go")
    r.until_up("main")
    runs_other_image(r, "main")
    r.check(r.count("main", "starting") == 1 and r.count("init", "starting") == 1, "each ran once")


@table({f"{kind}-{key}": (kind, POLICIES[key]) for kind in ("startup", "liveness") for key in ("always", "onfailure")})
def image_of_failing_main(r: Run, row: tuple[str, str]) -> None:
    """LC U3, 7.1: a main in the back-off of its probe kills comes back with the new image, and without the back-off."""
    kind, policy = row

    def version(image: str) -> Json:
        probe = {f"{kind}Probe": file_probe("well", failureThreshold=1)}
        main = container("main", script("main", term_code=1), image=image, **probe)
        return r.pod(restartPolicy=policy, main=[main, container("other", script("other"))], uid=f"uid-{r.name}")

    r.apply(version(IMAGE))
    r.until_event("main", "exiting", 60, nth=2)
    r.release("well")
    edit(r, version)
    r.until_event("main", "starting", nth=3)
    runs_other_image(r, "main")
    r.check(r.restarts("other") == 0, "the other was left alone")


@table(POLICIES, lasts=10)
def image_of_ending_main(r: Run, policy: str) -> None:
    """LC U4: a pod that ends takes no new image; it ends in order."""

    def version(image: str, **spec: Any) -> Json:
        command = script("main", on_term=None, term="until_file go; j exiting; exit 0")
        main = container("main", command, image=image)
        return r.pod(restartPolicy=policy, main=[main], uid=f"uid-{r.name}", **spec)

    r.apply(version(IMAGE))
    r.until_up("main")
    r.apply(version(IMAGE, **PAST))
    r.until_event("main", "term")
    edit(r, version, **PAST)
    r.release("go")
    r.until("main ended", lambda: r.ended("main") == (0, "Completed"))
    r.check(r.until_phase("Failed").get("reason") == "DeadlineExceeded", "DeadlineExceeded")
    r.check(r.count("main", "starting") == 1, "main ran once")


@table({"completed": "completed", "running": "running", "ending": "ending"})
def image_of_init_container(r: Run, when: str) -> None:
    """LC U5: a new image never restarts an init container."""

    ending = PAST if when == "ending" else {}

    def version(image: str, **spec: Any) -> Json:
        init = container("init", script("init", until="go", on_term=None, term="until_file go; exit 0"), image=image)
        main = container("main", script("main"))
        return r.pod(restartPolicy="Always", init=[init], main=[main], uid=f"uid-{r.name}", **spec)

    r.apply(version(IMAGE))
    r.until_event("init", "started", 60)
    if when == "completed":
        r.release("go")
        r.until_up("main")
    elif ending:
        r.apply(version(IMAGE, **PAST))
        r.until_event("init", "term")
    edit(r, version, **ending)
    r.release("go")
    if ending:
        r.until_phase("Failed")
        r.until("init has ended", lambda: r.ended("init") == (0, "Completed"))
        r.never("main", "starting")
    else:
        r.until_up("main")
    r.check(r.count("init", "starting") == 1, "init ran once")


@scenario()
def what_is_no_image_counts_at_the_next_start(r: Run) -> None:
    """LC 4.5: an edit of anything but the image restarts nothing; it counts at the container's next start."""

    def version(n: int) -> Json:
        main = container("main", script(f"v{n}", until="crash", code=1), env=[{"name": "N", "value": str(n)}])
        return r.pod(restartPolicy="Always", main=[main, container("other", script("other"))], uid=f"uid-{r.name}")

    r.apply(version(1))
    r.until_up("v1", "other")
    r.apply(version(2))
    r.apply(version(3))
    r.release("crash")
    r.until_event("v3", "starting")
    r.never("v1", "term")
    r.never("v2", "starting")
    r.check(r.restarts("other") == 0, "the other was left alone")


@scenario()
def image_of_finished_main(r: Run) -> None:
    """LC 4.5: a main that has ended and is not to restart stays as it is."""

    def version(image: str) -> Json:
        mains = [
            container("done", script("done", run=0), image=image),
            container("other", script("other"), image=image),
        ]
        return r.pod(main=mains, uid=f"uid-{r.name}")

    r.apply(version(IMAGE))
    r.until_up("done", "other")
    r.until("done", lambda: r.ended("done") == (0, "Completed"))
    edit(r, version)
    runs_other_image(r, "other")
    r.check(r.count("done", "starting") == 1, "done ran once")
