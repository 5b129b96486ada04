"""What the folder's files do to pods: edits, removals, several documents, errors (LC 12, README 1)."""

from __future__ import annotations

import json

from tests.conformance.harness.run import Run
from tests.conformance.harness.suite import suite
from tests.conformance.harness.words import Json, container, script, sidecar

scenario, table = suite.scenario, suite.table


@scenario()
def changed_manifest_replaces(r: Run) -> None:
    """LC 12.4: a changed manifest makes a new pod: the old one ends in order before the new one starts."""

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


def simple(r: Run, who: str, *, name: str = "", uid: str = "") -> Json:
    return r.pod(restartPolicy="Always", main=[container("main", script(who))], name=name, uid=uid)


@scenario(beyond="it reads only the first document of a file")
def several_documents(r: Run) -> None:
    """README 1: a file may hold several pods; they are edited and removed one by one."""
    first, second = (simple(r, n, name=f"{r.name}-{n}") for n in ("a", "b"))
    r.apply(first, second)
    r.until_event("a", "started", 60)
    r.until_event("b", "started")
    r.apply(first)
    r.until_event("b", "exiting")
    r.until("one pod is left", lambda: list(r.pods()) == [f"{r.name}-a"])
    changed = simple(r, "c", name=f"{r.name}-b")
    r.apply(changed, first)
    r.until_event("c", "started")
    r.never("a", "term")
    r.check(r.count("a", "starting") == 1, "the first was left alone")


@scenario(beyond="while its records last it shows the old pod's end again (LC 12.8)")
def put_back_makes_a_fresh_pod(r: Run) -> None:
    """README 1: a manifest that is put back after its removal runs afresh."""
    pod = r.pod(main=[container("main", script("main", run=0.1))])
    for run in (1, 2):
        r.apply(pod)
        r.until_event("main", "exiting", 60, nth=run)
        status = r.until_phase("Succeeded")
        r.check(r.restarts("main", status) == 0, "it is a fresh pod")
        r.remove()
        r.until_gone()


@scenario(beyond="it takes the pod as new only after a round of its housekeeping")
def put_back_while_ending(r: Run) -> None:
    """LC 2.2, README 1: put back while it still ends, the pod ends in order and then begins anew."""
    pod = r.pod(restartPolicy="Always", main=[container("main", script("main", on_term=1))])
    r.apply(pod)
    r.until_up("main")
    r.remove()
    r.until_event("main", "term")
    r.apply(pod)
    r.until_event("main", "starting", nth=2)
    r.ordered("main term", "main exiting")
    status = r.until(
        "running anew", lambda: (s := r.status()) and "deletionTimestamp" not in s and r.until_phase("Running")
    )
    r.check(r.restarts("main", status) == 0, "no restart is counted")


@scenario(beyond="at its next full read a file with an error counts as removed")
def invalid_edit_keeps_the_pod(r: Run) -> None:
    """README 1: an edit that is invalid changes nothing but shows its error; the next good one counts."""
    r.apply(simple(r, "v1"))
    r.until_up("v1")
    before = r.status()
    for broken, error in (("kind: [", "not valid YAML"), (json.dumps(simple(r, "v2") | {"sepc": 1}), "sepc")):
        r.write(broken)

        def shown(error: str = error) -> bool:
            errors = [p for p in r.agent.problems() or [] if p["file"] == f"{r.name}.yaml"]
            return any(error in f"{p['path']} {p['message']}" for p in errors)

        r.until(f"the error is shown: {error}", shown)
        r.check(r.status() == before, "the pod is as before")
    r.apply(simple(r, "v3"))
    r.until_event("v3", "started")
    r.ordered("v1 exiting", "v3 starting")
    r.never("v2", "starting")
    r.until("no error is left", lambda: not [p for p in r.agent.problems() or [] if r.name in p["file"]])


@scenario(beyond="the file that was written last wins")
def two_files_one_name(r: Run) -> None:
    """README 1: of two files that define one pod the one that runs stays; the other is refused until it is gone."""
    r.apply(simple(r, "first"), file=f"{r.name}-1.yaml")
    r.until_up("first")
    r.apply(simple(r, "second"), file=f"{r.name}-0.yaml")
    r.until(
        "the second is refused",
        lambda: [
            p for p in r.agent.problems() or [] if p["file"] == f"{r.name}-0.yaml" and f"{r.name}-1" in p["message"]
        ],
    )
    r.check(r.count("first", "starting") == 1 and not r.events("first", "term"), "the first runs on")
    r.never("second", "starting")
    r.remove(file=f"{r.name}-1.yaml")
    r.until_event("second", "started")
    r.ordered("first exiting", "second starting")
    r.until("no error is left", lambda: not [p for p in r.agent.problems() or [] if r.name in p["file"]])


@scenario()
def same_content_is_the_same_pod(r: Run) -> None:
    """LC 12.3: comments, the order of keys and written-out defaults change nothing."""
    pod = simple(r, "v1")
    r.apply(pod)
    r.until_up("v1")
    before = r.cstatus("main")["containerID"], (r.status() or {})["uid"]
    twin = json.loads(json.dumps(pod, sort_keys=True))
    twin["spec"]["dnsPolicy"] = "ClusterFirst"
    twin["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    r.write("# a remark\n" + json.dumps(twin, sort_keys=True, indent=3))
    marker = simple(r, "marker", name=f"{r.name}-marker")
    r.apply(marker, file=f"{r.name}-marker.yaml")
    r.until_event("marker", "started")  # written later and started, so the other file has been read
    pods = r.pods()
    status = next(p for n, p in pods.items() if "marker" not in n)
    r.check(
        (status["status"]["containerStatuses"][0]["containerID"], status["metadata"]["uid"]) == before, "the same pod"
    )
    r.never("v1", "term")


@scenario()
def only_the_newest_edit_runs(r: Run) -> None:
    """LC 12.4: of several edits made while the old pod ends only the last one is started."""

    def version(n: int) -> Json:
        return r.pod(restartPolicy="Always", main=[container("main", script(f"v{n}", on_term=2))])

    r.apply(version(1))
    r.until_up("v1")
    r.apply(version(2))
    r.until_event("v1", "term")
    r.apply(version(3))
    r.until_event("v3", "started", 60)
    r.ordered("v1 exiting", "v3 starting")
    r.never("v2", "starting")


@scenario(beyond="the extension of a file does not matter to it")
def only_manifests_are_read(r: Run) -> None:
    """README 1: *.yaml, *.yml and *.json are read; hidden files, sub-folders and other names are not."""
    folder = r.agent.manifests / f"{r.name}.yaml.d"
    folder.mkdir()
    try:
        ignored = [f".{r.name}.yaml", f"{r.name}.txt", f"{r.name}.yaml~", f"{folder.name}/pod.yaml"]
        for number, file in enumerate(ignored):
            r.apply(simple(r, f"ignored{number}", name=f"{r.name}-i{number}"), file=file)
        for extension in ("yaml", "yml", "json"):
            r.apply(simple(r, extension, name=f"{r.name}-{extension}"), file=f"{r.name}.{extension}")
        for extension in ("yaml", "yml", "json"):
            r.until_event(extension, "started", 60)
        r.check(len(r.pods()) == 3, f"three pods: {list(r.pods())}")
        for number in range(len(ignored)):
            r.never(f"ignored{number}", "starting")
    finally:
        r.remove()
        folder.rmdir()


#: README 11, PH 2.4, 11.53: what is added to the container; what /status says of it.
REFUSED: dict[str, tuple[Json, str]] = {
    "unknown-field": ({"livenesProbe": {}}, "did you mean livenessProbe?"),
    "no-handler": ({"livenessProbe": {"periodSeconds": 1}}, "must specify a handler type"),
    "stop-signal": ({"lifecycle": {"stopSignal": "SIGUSR1"}}, "stopSignal"),
}


@table(REFUSED, lasts=2, beyond="it shows no errors, and takes a stop signal without using it")
def refused_manifest(r: Run, row: tuple[Json, str]) -> None:
    """PH 11.53, 11.54, README 1, 11: a pod with an error is not run; the error names field and reason."""
    extra, error = row
    r.apply(r.pod(main=[container("main", script("main"), **extra)]))

    def told() -> bool:
        errors = [p for p in r.agent.problems() or [] if p["file"] == f"{r.name}.yaml"]
        return any(error in f"{p['path']} {p['message']}" for p in errors)

    r.until(f"the error is shown: {error}", told)
    r.check(not r.pods(), "there is no such pod")
