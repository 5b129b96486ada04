"""Edits of the image of a sidecar in a pod with a fixed uid (LC 4.5, U6 to U9)."""

from __future__ import annotations

from typing import Any

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import (
    IMAGE,
    POLICIES,
    Json,
    container,
    file_probe,
    script,
    sidecar,
)
from tests.conformance.updates import PAST, edit, runs_other_image

scenario, table = suite.scenario, suite.table


@table(POLICIES)
def image_of_sidecar_during_init(r: Run, policy: str) -> None:
    """LC U6: a sidecar whose image changes while a later init container runs restarts; nothing else does, or starts."""

    def version(image: str) -> Json:
        return r.pod(
            restartPolicy=policy,
            init=[
                container("init1", script("init1", run=0.1)),
                sidecar("side1", script("side1"), image=image),
                container("init2", script("init2", until="go")),
                sidecar("side2", script("side2")),
            ],
            main=[container("main", script("main"))],
            uid=f"uid-{r.name}",
        )

    r.apply(version(IMAGE))
    r.until_event("init2", "started", 60)
    edit(r, version)
    r.until_event("side1", "starting", nth=2)
    runs_other_image(r, "side1")
    for name in ("side2", "main"):
        r.never(name, "starting")
    r.release("go")
    r.until_up("main")
    for name in ("init1", "init2", "side2", "main"):
        r.check(r.count(name, "starting") == 1, f"{name} ran once")


@table(POLICIES)
def image_of_running_sidecar(r: Run, policy: str) -> None:
    """LC U7: only the sidecar restarts."""

    def version(image: str) -> Json:
        return r.pod(
            restartPolicy=policy,
            init=[sidecar("side1", script("side1"), image=image), sidecar("side2", script("side2"))],
            main=[container("main", script("main"))],
            uid=f"uid-{r.name}",
        )

    r.apply(version(IMAGE))
    r.until_up("main")
    edit(r, version)
    r.until_event("side1", "starting", nth=2)
    runs_other_image(r, "side1")
    r.until_told("Killing", "Init container side1 definition changed", who="side1")
    for name in ("side2", "main"):
        r.check(r.count(name, "starting") == 1 and r.restarts(name) == 0, f"{name} was left alone")


@table({f"{kind}-{key}": (kind, p) for kind in ("startup", "liveness") for key, p in POLICIES.items()})
def image_of_failing_sidecar(r: Run, row: tuple[str, str]) -> None:
    """LC U8: a sidecar in the back-off of its probe kills comes back with the new image, and the order is kept."""
    kind, policy = row

    def version(image: str) -> Json:
        probe = {f"{kind}Probe": file_probe("well", failureThreshold=1)}
        side = sidecar("side", script("side", term_code=1), image=image, **probe)
        main = container("main", script("main"))
        return r.pod(restartPolicy=policy, init=[side], main=[main], uid=f"uid-{r.name}")

    r.apply(version(IMAGE))
    r.until_event("side", "exiting", 60, nth=2)
    r.release("well")
    edit(r, version)
    r.until_event("side", "starting", nth=3)
    runs_other_image(r, "side")
    r.until_up("main")
    r.check(r.count("main", "starting") == 1, "main started once")
    if kind == "startup":
        r.check(r.first("main", "starting") > r.events("side", "starting")[2].at, "main waited for the sidecar")


@table(POLICIES, lasts=10)
def image_of_ending_sidecar(r: Run, policy: str) -> None:
    """LC U9: a sidecar of a pod that ends takes no new image; the reverse order is kept."""

    def version(image: str, **spec: Any) -> Json:
        return r.pod(
            restartPolicy=policy,
            init=[sidecar("side1", script("side1"), image=image), sidecar("side2", script("side2"))],
            main=[container("main", script("main", on_term=None, term="until_file go; j exiting; exit 0"))],
            uid=f"uid-{r.name}",
            **spec,
        )

    r.apply(version(IMAGE))
    r.until_up("main")
    r.apply(version(IMAGE, **PAST))
    r.until_event("main", "term")
    edit(r, version, **PAST)
    r.release("go")
    r.until_event("side1", "exiting")
    r.ordered("main exiting", "side2 term", "side2 exiting", "side1 term")
    r.check(r.count("side1", "starting") == 1, "side1 ran once")


@scenario()
def image_of_sidecar_not_yet_started(r: Run) -> None:
    """LC 4.5: while a sidecar's startup probe has no result yet, its new image waits; then it restarts."""

    def version(image: str) -> Json:
        side = sidecar("side", script("side"), image=image, startupProbe=file_probe("up", failureThreshold=60))
        mains = [container("main", script("main"), env=[{"name": "SEEN", "value": image}])]
        return r.pod(init=[side], main=mains, uid=f"uid-{r.name}")

    r.apply(version(IMAGE))
    r.until_event("side", "started", 60)
    edit(r, version)
    r.never("side", "term")
    r.release("up")
    r.until_event("side", "starting", nth=2)
    runs_other_image(r, "side")
    r.until_up("main")
