"""Black-box conformance harness for a node agent that runs pods from a folder.

It knows nothing of the agent's insides.  A scenario drops a manifest into the
watched folder, the containers themselves write a time-stamped journal into a
host directory, and the scenario asserts on that journal and on `GET /pods`
(a v1 PodList).  The same scenarios run unchanged against a real kubelet in
standalone mode, which is how their expectations were checked.

Only the standard library is used, so that it runs on any host with any agent.
See README.md beside this file; test_scenarios.py runs it against minikubelet.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import pathlib
import shlex
import shutil
import subprocess
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, Self

IMAGE = "busybox:1.36"

#: A Kubernetes object, or part of one, as JSON has it.
Json = dict[str, Any]

PRELUDE = r"""
j() { read u _ </proc/uptime; echo "$u $N $*" >>/journal/events; }
nap() { sleep "$1" & wait $!; }
"""


def script(
    name: str,
    *,
    delay: float = 0,
    run: float | None = None,
    code: int = 0,
    on_term: float | None = 0,
    term_code: int = 0,
    body: str = "",
) -> list[str]:
    """A container command that journals its own life.

    It journals `starting`, waits `delay` seconds, journals `started` and
    touches /tmp/started, executes `body`, then either runs for `run` seconds and
    leaves with `code` (journal: `exiting`) or runs until it is told to stop.
    On SIGTERM it journals `term`, takes `on_term` seconds, journals `exiting`
    and leaves with `term_code`; with on_term=None it journals and ignores it.
    """
    trap = "j term; " + (
        f"[ {on_term} = 0 ] || sleep {on_term}; j exiting; exit {term_code}" if on_term is not None else ":"
    )
    lines = [
        f"N={name}",
        PRELUDE,
        "j starting",
        f"trap {shlex.quote(trap)} TERM",
        f"[ {delay} = 0 ] || nap {delay}",
        "j started; touch /tmp/started",
        body,
        f"nap {run}; j exiting; exit {code}" if run is not None else "while :; do nap 1000; done",
    ]
    return ["sh", "-c", "\n".join(lines)]


def shell(name: str, what: str) -> list[str]:
    """A command (for hooks and probes) that runs `what` with the journal at hand."""
    return ["sh", "-c", f"N={name}\n{PRELUDE}\n{what}"]


def container(name: str, command: list[str], **extra: Any) -> Json:
    mounts = [{"name": "journal", "mountPath": "/journal"}, *extra.pop("volumeMounts", [])]
    return {
        "name": name,
        "image": extra.pop("image", IMAGE),
        "imagePullPolicy": extra.pop("imagePullPolicy", "IfNotPresent"),
        "command": command,
        "volumeMounts": mounts,
        **extra,
    }


def sidecar(name: str, command: list[str], **extra: Any) -> Json:
    return container(name, command, restartPolicy="Always", **extra)


def exec_probe(command: list[str], **fields: Any) -> Json:
    return {"exec": {"command": command}, "periodSeconds": 1, **fields}


STARTED = exec_probe(["cat", "/tmp/started"], failureThreshold=60)


@dataclasses.dataclass(frozen=True)
class Event:
    at: float
    who: str
    what: str


class Failed(AssertionError):  # noqa: N818 - a verdict, not an error of the harness
    """An expectation of a scenario that did not hold."""


class Run:
    """One scenario under way: its manifest, its journal, its pod's statuses."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent, self.name = agent, name
        self.dir = agent.work / name
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.measures: dict[str, float] = {}
        self.history: list[tuple[float, Json]] = []
        self.dropped_at = 0.0
        self._files: set[pathlib.Path] = set()

    # ---- acting -------------------------------------------------------------
    def pod(
        self, *, init: Sequence[Json] = (), main: Sequence[Json], volumes: Sequence[Json] = (), **spec: Any
    ) -> Json:
        spec.setdefault("restartPolicy", "Never")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        mark = {"name": "CONFORMANCE_SCENARIO", "value": str(self.dir)}
        init, main = ([{**c, "env": [*c.get("env", []), mark]} for c in cs] for cs in (init, main))
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default", "labels": {"scenario": self.name}},
            "spec": {
                **spec,
                **({"initContainers": list(init)} if init else {}),
                "containers": list(main),
                "volumes": [
                    {"name": "journal", "hostPath": {"path": str(self.dir), "type": "Directory"}},
                    *volumes,
                ],
            },
        }

    def apply(self, *objects: Json, file: str | None = None) -> None:
        target = self.agent.manifests / (file or f"{self.name}.yaml")
        text = "\n---\n".join(json.dumps(o, indent=1) for o in objects)
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_text(text)
        temporary.rename(target)
        self._files.add(target)
        self.dropped_at = uptime()

    def remove(self) -> float:
        for file in self._files:
            file.unlink(missing_ok=True)
        self._files.clear()
        return uptime()

    # ---- looking ------------------------------------------------------------
    def events(self, who: str | None = None, what: str | None = None) -> list[Event]:
        try:
            lines = (self.dir / "events").read_text().splitlines()
        except FileNotFoundError:
            return []
        rows = [line.split(" ", 2) for line in lines if line.count(" ") >= 2]
        found = [Event(float(r[0]), r[1], r[2]) for r in rows]
        return [e for e in found if who in (None, e.who) and what in (None, e.what)]

    def status(self) -> Json | None:
        """The newest status of this scenario's pod, or None when there is no such pod."""
        for pod in self.agent.pods():
            if pod["metadata"].get("labels", {}).get("scenario") == self.name:
                status = {**pod.get("status", {}), "uid": pod["metadata"].get("uid")}
                if not self.history or self.history[-1][1] != status:
                    self.history.append((uptime(), status))
                return status
        return None

    def cstatus(self, name: str, status: Json | None = None) -> Json:
        status = status or self.status() or {}
        found: list[Json] = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
        for c in found:
            if c["name"] == name:
                return c
        raise Failed(f"no status for container {name}")

    def condition(self, kind: str, status: Json | None = None) -> Json:
        status = status or self.status() or {}
        return next((c for c in status.get("conditions", []) if c["type"] == kind), {"status": "absent"})

    # ---- waiting and asserting ---------------------------------------------
    def until(self, what: str, test: Callable[[], Any], within: float = 30.0) -> Any:
        """The first true value of `test`, which may raise while what it looks at is not there."""
        deadline = time.monotonic() + within
        while True:
            try:
                value = test()
            except (Failed, KeyError, IndexError, StopIteration):
                value = None
            if value:
                return value
            if time.monotonic() > deadline:
                raise Failed(f"not within {within:g} s: {what}; journal: {self.brief()}; status: {self.brief_status()}")
            time.sleep(0.05)

    def until_event(self, who: str, what: str, within: float = 30.0, nth: int = 1) -> Event:
        found: Event = self.until(f"{who} {what} (#{nth})", lambda: self.events(who, what)[nth - 1], within)
        return found

    def until_phase(self, phase: str, within: float = 40.0) -> Json:
        status: Json = self.until(
            f"phase {phase}", lambda: (s := self.status()) and s.get("phase") == phase and s, within
        )
        return status

    def until_gone(self, within: float = 60.0) -> float:
        """Wait until no process of this scenario lives and /pods has no such pod; when the processes were gone."""
        ended: list[float] = []

        def gone() -> bool:
            if not ended and not processes(self.dir):
                ended.append(uptime())
            return bool(ended) and self.status() is None

        self.until("pod gone", gone, within)
        return ended[0]

    def check(self, ok: object, what: str) -> None:
        if not ok:
            raise Failed(f"{what}; journal: {self.brief()}; status: {self.brief_status()}")

    def first(self, who: str, what: str) -> float:
        found = self.events(who, what)
        self.check(found, f"{who} never journalled {what!r}")
        return found[0].at

    def last(self, who: str, what: str) -> float:
        found = self.events(who, what)
        self.check(found, f"{who} never journalled {what!r}")
        return found[-1].at

    def ordered(self, *steps: str) -> None:
        """Each step is 'who what'; their first occurrences must not go back in time."""
        times = [(s, self.first(*s.split(" ", 1))) for s in steps]
        for (a, at), (b, bt) in itertools.pairwise(times):
            self.check(at <= bt, f"{b!r} at {bt} came before {a!r} at {at}")

    def never(self, who: str, what: str) -> None:
        self.check(not self.events(who, what), f"{who} journalled {what!r}")

    def measure(self, name: str, seconds: float) -> None:
        self.measures[name] = round(seconds, 3)

    def brief(self) -> str:
        return " | ".join(f"{e.at:.2f} {e.who} {e.what}" for e in self.events()[-24:])

    def brief_status(self) -> str:
        if not self.history:
            return "none seen"
        s = self.history[-1][1]

        def one(c: Json) -> str:
            state = c.get("state") or {}
            kind = next(iter(state), "?")
            detail = state.get(kind) or {}
            return f"{c['name']}={kind}:{detail.get('reason', '')}{detail.get('exitCode', '')}#{c.get('restartCount')}"

        parts = [one(c) for c in (s.get("initContainerStatuses") or []) + (s.get("containerStatuses") or [])]
        return f"{s.get('phase')} {s.get('reason', '')} " + " ".join(parts)


@dataclasses.dataclass
class Agent:
    """The node agent under test, known by its folder and its status endpoint."""

    manifests: pathlib.Path
    url: str
    work: pathlib.Path
    stop: str = ""
    start: str = ""

    def pods(self) -> list[Json]:
        with urllib.request.urlopen(  # noqa: S310 - the URL is the caller's own
            f"{self.url}/pods", timeout=10
        ) as answer:
            return json.load(answer).get("items") or []

    def halt(self) -> None:
        subprocess.run(self.stop, shell=True, check=True, timeout=60)  # noqa: S602 - the caller's own words

    def boot(self) -> None:
        subprocess.run(self.start, shell=True, check=True, timeout=60)  # noqa: S602 - the caller's own words
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.pods()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise Failed("the agent's /pods did not answer within 60 s of its start")


def uptime() -> float:
    return float(pathlib.Path("/proc/uptime").read_text().split()[0])


def processes(folder: pathlib.Path) -> list[int]:
    """The processes on this host that belong to the containers of the scenario that has this folder."""
    mark, found = f"CONFORMANCE_SCENARIO={folder}".encode(), []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass  # it ended meanwhile
    return found


class Trace:
    """Writes every change of every scenario pod's status to FOLDER/<scenario>.json while it is open."""

    def __init__(self, agent: Agent, folder: pathlib.Path) -> None:
        self.agent, self.folder = agent, folder
        self.seen: dict[str, list[Json]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        for scenario, changes in self.seen.items():
            (self.folder / f"{scenario}.json").write_text(json.dumps(changes, indent=1))

    def _watch(self) -> None:
        while not self._end.wait(0.03):
            try:
                pods = self.agent.pods()
            except OSError:
                continue
            for pod in pods:
                meta = pod["metadata"]
                scenario = meta.get("labels", {}).get("scenario")
                if scenario and meta["name"].startswith(scenario):
                    change = {
                        "uid": meta.get("uid"),
                        "deletionTimestamp": meta.get("deletionTimestamp"),
                        "status": pod.get("status"),
                    }
                    changes = self.seen.setdefault(scenario, [])
                    if not changes or {k: changes[-1][k] for k in change} != change:
                        changes.append({"uptime": uptime(), **change})


Play = Callable[[Run], None]


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    play: Play
    alone: bool  # stops or restarts the agent, so nothing else may run beside it
    beyond: str  # why a real kubelet does not do this, where it does not

    @property
    def summary(self) -> str:
        return (self.play.__doc__ or "").strip().splitlines()[0]


class Suite:
    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []

    def scenario(self, *, alone: bool = False, beyond: str = "") -> Callable[[Play], Play]:
        def add(function: Play) -> Play:
            self.scenarios.append(Scenario(function.__name__.replace("_", "-"), function, alone, beyond))
            return function

        return add


def play(agent: Agent, scenario: Scenario) -> Json:
    run, began = Run(agent, scenario.name), time.monotonic()
    try:
        scenario.play(run)
        verdict, why = "passed", ""
    except Failed as failure:
        verdict, why = "failed", str(failure)
    except Exception:  # noqa: BLE001 - a verdict, whatever it is
        verdict, why = "failed", traceback.format_exc()
    finally:
        run.remove()
    try:
        run.until_gone(90)
    except (Failed, OSError) as failure:
        verdict, why = "failed", why or f"left behind: {failure}"
    return {
        "scenario": scenario.name,
        "verdict": verdict,
        "seconds": round(time.monotonic() - began, 1),
        "measures": run.measures,
        "why": why,
    }


def main(suite: Suite, argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="run the conformance scenarios against a node agent")
    parser.add_argument("--manifests", type=pathlib.Path, required=True, help="the folder that the agent watches")
    parser.add_argument("--url", default="http://127.0.0.1:10255", help="where the agent serves /pods")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/conformance"))
    parser.add_argument("--stop", default="", help="shell command that stops the agent at once (kill -9)")
    parser.add_argument("--start", default="", help="shell command that starts the agent and returns")
    parser.add_argument("--jobs", type=int, default=6, help="scenarios at a time")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results there")
    parser.add_argument("--trace", type=pathlib.Path, help="keep every status change of every pod in this folder")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("only", nargs="*", help="names of scenarios, or parts of them")
    options = parser.parse_args(argv)
    chosen = [s for s in suite.scenarios if not options.only or any(o in s.name for o in options.only)]
    if options.list:
        for s in chosen:
            print(f"{s.name:42} {s.summary}" + (f" [beyond the kubelet: {s.beyond}]" if s.beyond else ""))  # noqa: T201
        return 0
    agent = Agent(options.manifests, options.url, options.work, options.stop, options.start)
    results: list[Json] = []

    def report(result: Json) -> None:
        results.append(result)
        measures = " ".join(f"{k}={v:g}" for k, v in result["measures"].items())
        print(f"{result['verdict']:8}{result['scenario']:42}{result['seconds']:6.1f} s  {measures}", flush=True)  # noqa: T201
        if result["why"]:
            print("        " + result["why"][:1500].replace("\n", "\n        "), flush=True)  # noqa: T201

    skipped = 0
    with Trace(agent, options.trace) if options.trace else contextlib.nullcontext():
        together = [s for s in chosen if not s.alone]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(play, agent, s) for s in together]):
                report(done.result())
        for s in chosen:
            if s.alone:
                if agent.stop and agent.start:
                    report(play(agent, s))
                else:
                    skipped += 1
    failed = sum(r["verdict"] != "passed" for r in results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(f"{len(results) - failed} passed, {failed} failed, {skipped} skipped")  # noqa: T201
    return 1 if failed or not results else 0
