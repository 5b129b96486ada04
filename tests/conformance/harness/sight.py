"""What a scenario can see: its journal, its pod's statuses, the events told of it."""

from __future__ import annotations

import dataclasses
import pathlib
import re

from tests.conformance.harness.agent import Agent, Failed
from tests.conformance.harness.host import uptime
from tests.conformance.harness.words import Json


@dataclasses.dataclass(frozen=True)
class Event:
    at: float
    who: str
    what: str


class Sight:
    def __init__(self, agent: Agent, name: str, folder: pathlib.Path) -> None:
        self.agent, self.name, self.dir = agent, name, folder
        #: Every status that was seen, with the host's uptime.
        self.history: list[tuple[float, Json]] = []

    def events(self, who: str | None = None, what: str | None = None) -> list[Event]:
        """The journal."""
        try:
            lines = (self.dir / "events").read_text().splitlines()
        except FileNotFoundError:
            return []
        rows = [line.split(" ", 2) for line in lines if line.count(" ") >= 2]
        found = [Event(float(r[0]), r[1], r[2]) for r in rows]
        return [e for e in found if who in (None, e.who) and what in (None, e.what)]

    def pods(self) -> dict[str, Json]:
        """All pods of this scenario, by name."""
        listed = self.agent.pods()
        return {
            pod["metadata"]["name"]: pod
            for pod in listed
            if pod["metadata"].get("labels", {}).get("scenario") == self.name
        }

    def status(self) -> Json | None:
        """The newest status of this scenario's pod, or None when there is no such pod."""
        for pod in self.pods().values():
            meta = pod["metadata"]
            status = {**pod.get("status", {}), "uid": meta.get("uid")}
            if meta.get("deletionTimestamp"):
                status["deletionTimestamp"] = meta["deletionTimestamp"]
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

    def restarts(self, name: str, status: Json | None = None) -> int:
        count: int = self.cstatus(name, status)["restartCount"]
        return count

    def waiting(self, name: str) -> Json:
        """Raises KeyError when it does not wait."""
        found: Json = self.cstatus(name)["state"]["waiting"]
        return found

    def ended(self, name: str, status: Json | None = None) -> tuple[int, str]:
        """Exit code and reason."""
        end = self.cstatus(name, status)["state"].get("terminated")
        if end is None:
            raise Failed(f"{name} has not ended; journal: {self.brief()}; status: {self.brief_status()}")
        return end["exitCode"], end["reason"]

    def condition(self, kind: str, status: Json | None = None) -> Json:
        status = status or self.status() or {}
        return next((c for c in status.get("conditions", []) if c["type"] == kind), {"status": "absent"})

    def told(self, reason: str, message: str | re.Pattern[str], *, who: str = "") -> list[str] | None:
        """Messages of the pod's events (of container `who`) that begin so, or match; None where none are served."""
        listed = self.agent.events()
        if listed is None:
            return None
        messages: list[str] = [
            e["message"]
            for e in listed
            if e["involvedObject"]["name"] == self.name
            and e["reason"] == reason
            and (not who or f"{{{who}}}" in e["involvedObject"].get("fieldPath", ""))
        ]
        if isinstance(message, str):
            return [m for m in messages if m.startswith(message)]
        return [m for m in messages if message.fullmatch(m)]

    def container_ids(self) -> list[str]:
        """All that were seen, for the search in logs."""
        parts = [
            c for _, s in self.history for k in ("initContainerStatuses", "containerStatuses") for c in s.get(k, [])
        ]
        return sorted({c["containerID"].partition("://")[2] for c in parts if c.get("containerID")})

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
