"""The node agent under test, known by its folder and what it serves; and a trace of all it says of the pods."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import shlex
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Self

from tests.conformance.harness.host import uptime
from tests.conformance.harness.words import Json


class Failed(AssertionError):  # noqa: N818 - a verdict, not an error of the harness
    """An expectation of a scenario that did not hold."""


class Answers:
    """What one URL answers. Threads that ask while a request is under way share the next one, to spare the agent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = 0
        self._newest = 0
        self._answer: Any = None

    def get(self, url: str) -> Any:
        """An answer to a request that began after this call."""
        wanted = self._begun + 1
        with self._lock:
            if self._newest < wanted:
                self._begun += 1
                with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - the caller's own URL
                    self._answer = json.load(answer)
                self._newest = self._begun
            return self._answer


@dataclasses.dataclass
class Agent:
    """`stop` and `start` are shell commands, as are those for the runtime; without them outages are skipped."""

    manifests: pathlib.Path
    url: str
    work: pathlib.Path
    stop: str = ""
    start: str = ""
    stop_runtime: str = ""
    start_runtime: str = ""
    #: Removes the container whose id is added to it from the runtime, such as `crictl rm`.
    remove_record: str = ""
    _answers: dict[str, Answers] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(Answers), init=False, repr=False
    )

    def pods(self) -> list[Json]:
        found: list[Json] = self._get("/pods").get("items") or []
        return found

    def events(self) -> list[Json] | None:
        """None where events are not served, as by a kubelet."""
        try:
            found: list[Json] = self._get("/events").get("items") or []
        except urllib.error.HTTPError:
            return None
        return found

    def problems(self) -> list[Json] | None:
        """What is wrong with manifests, with `file`, `line`, `path` and `message`; None where that is not served."""
        try:
            found: list[Json] = self._get("/status")["manifests"]["errors"]
        except urllib.error.HTTPError:
            return None
        return found

    def can(self, outage: str) -> bool:
        """Whether the outage ("agent" or "runtime") can be brought about."""
        return bool(self.stop and self.start if outage == "agent" else self.stop_runtime and self.start_runtime)

    def halt(self, outage: str) -> None:
        _shell(self.stop if outage == "agent" else self.stop_runtime)

    def forget(self, container_id: str) -> bool:
        """Remove a dead container's record behind the agent's back. False when there is no means to."""
        if not self.remove_record:
            return False
        _shell(f"{self.remove_record} {shlex.quote(container_id)}")
        return True

    def boot(self, outage: str) -> None:
        """Returns when the agent answers."""
        _shell(self.start if outage == "agent" else self.start_runtime)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.pods()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise Failed("the agent's /pods did not answer within 60 s of its start")

    def _get(self, path: str) -> Any:
        return self._answers[path].get(f"{self.url}{path}")


def _shell(command: str) -> None:
    subprocess.run(command, shell=True, check=True, timeout=60)  # noqa: S602 - the caller's own words


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
