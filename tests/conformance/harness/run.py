"""One scenario under way: what it does to its manifest and its pod, and what it waits for and expects."""

from __future__ import annotations

import contextlib
import itertools
import json
import pathlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.conformance.harness.agent import Agent, Failed
from tests.conformance.harness.host import MARK, processes, uptime
from tests.conformance.harness.outage import Meeting
from tests.conformance.harness.sight import Event, Sight
from tests.conformance.harness.words import Json


class Run(Sight):
    def __init__(self, agent: Agent, name: str, *, outage: str = "", meeting: Meeting | None = None) -> None:
        super().__init__(agent, name, agent.work / name)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.measures: dict[str, float] = {}
        self.dropped_at = 0.0
        self._files: set[pathlib.Path] = set()
        self._outage, self._meeting = outage, meeting or Meeting(1)

    # ---- acting -------------------------------------------------------------
    def pod(
        self,
        *,
        init: Sequence[Json] = (),
        main: Sequence[Json],
        volumes: Sequence[Json] = (),
        name: str = "",
        uid: str = "",
        **spec: Any,
    ) -> Json:
        """The pod of this scenario; with a `name`, another one. With a `uid`, an edit is an update of the same pod."""
        spec.setdefault("restartPolicy", "Never")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        mark = {"name": MARK, "value": str(self.dir)}
        init, main = ([{**c, "env": [*c.get("env", []), mark]} for c in cs] for cs in (init, main))
        meta = {"name": name or self.name, "namespace": "default", "labels": {"scenario": self.name}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, **({"uid": uid} if uid else {})},
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
        self.write("\n---\n".join(json.dumps(o, indent=1) for o in objects), file=file)

    def write(self, text: str, *, file: str | None = None) -> None:
        target = self._file(file)
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_text(text)
        temporary.rename(target)
        self._files.add(target)
        self.dropped_at = uptime()

    def remove(self, *, file: str | None = None) -> float:
        """Remove all manifests of this scenario, or one; when that was begun."""
        began = uptime()
        for path in [self._file(file)] if file else list(self._files):
            path.unlink(missing_ok=True)
            self._files.discard(path)
        return began

    def _file(self, file: str | None) -> pathlib.Path:
        return self.agent.manifests / (file or f"{self.name}.yaml")

    def release(self, name: str) -> None:
        """What waits for this (`script(until=)`, `until_file`, `file_probe`) goes on."""
        (self.dir / name).touch()

    def withdraw(self, name: str) -> None:
        (self.dir / name).unlink()

    def forget(self, *container_ids: str) -> None:
        """Remove these dead containers' records behind the agent's back, where there is a means to."""
        for container_id in container_ids:
            self.agent.forget(container_id.partition("://")[2])

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """The agent (or what the scenario named) is down meanwhile, for all scenarios that asked for it."""
        self._meeting.meet(lambda: self.agent.halt(self._outage))
        try:
            yield
        finally:
            self._meeting.meet(lambda: self.agent.boot(self._outage))

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

    def until_up(self, *names: str, within: float = 60.0) -> Json:
        """Wait until these have journalled `started` and the pod is Running."""
        for name in names:
            self.until_event(name, "started", within)
        return self.until_phase("Running", within)

    def until_ready(self, ready: str = "True", within: float = 40.0) -> Json:
        status: Json = self.until(
            f"Ready {ready}",
            lambda: (s := self.status()) and self.condition("Ready", s)["status"] == ready and s,
            within,
        )
        return status

    def until_told(self, reason: str, message: str | re.Pattern[str], *, who: str = "", within: float = 20.0) -> None:
        """Wait for an event as `told` finds it, where events are served."""
        try:
            self.until("", lambda: (found := self.told(reason, message, who=who)) is None or found, within)
        except Failed as failure:
            others = [m[:300] for m in self.told(reason, "", who=who) or []]
            raise Failed(f"no event {reason} {message!r} of {who or 'the pod'}, only {others}") from failure

    def never_told(self, reason: str, message: str, *, who: str = "") -> None:
        self.check(not self.told(reason, message, who=who), f"there is an event {reason} {message!r}")

    def until_gone(self, within: float = 60.0) -> float:
        """Wait until no process of this scenario lives and /pods has no such pod; when the processes were gone."""
        ended: list[float] = []

        def gone() -> bool:
            if not ended and not processes(self.dir):
                ended.append(uptime())
            return bool(ended) and self.status() is None

        with self._watched():
            self.until("pod gone", gone, within)
        return ended[0]

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Statuses are taken without a pause meanwhile, so that the last one of a pod is seen, short as it is there."""
        end = threading.Event()

        def watch() -> None:
            with contextlib.suppress(OSError):
                while not end.wait(0.01):
                    self.status()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            end.set()
            watcher.join()

    def last_status(self) -> Json:
        """After `until_gone`: the last status that was seen of a removed pod (a kubelet shows none)."""
        status = self.history[-1][1]
        self.check("deletionTimestamp" in status, "the pod was listed while it ended")
        return status

    def check(self, ok: object, what: str) -> None:
        if not ok:
            raise Failed(f"{what}; journal: {self.brief()}; status: {self.brief_status()}")

    def same(self, now: Json, before: Json, what: str) -> None:
        changed = {k: (before.get(k), now.get(k)) for k in {**before, **now} if before.get(k) != now.get(k)}
        self.check(not changed, f"{what}; before and now: {changed}")

    def first(self, who: str, what: str) -> float:
        found = self.events(who, what)
        self.check(found, f"{who} never journalled {what!r}")
        return found[0].at

    def last(self, who: str, what: str) -> float:
        found = self.events(who, what)
        self.check(found, f"{who} never journalled {what!r}")
        return found[-1].at

    def count(self, who: str, what: str) -> int:
        return len(self.events(who, what))

    def ordered(self, *steps: str) -> None:
        """Each step is 'who what'; their first occurrences must not go back in time."""
        times = [(s, self.first(*s.split(" ", 1))) for s in steps]
        for (a, at), (b, bt) in itertools.pairwise(times):
            self.check(at <= bt, f"{b!r} at {bt} came before {a!r} at {at}")

    def never(self, who: str, what: str) -> None:
        self.check(not self.events(who, what), f"{who} journalled {what!r}")

    def measure(self, name: str, seconds: float) -> None:
        self.measures[name] = round(seconds, 3)
