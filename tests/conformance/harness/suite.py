"""The one Suite that all modules of scenarios register in, and how a scenario is played to its verdict."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.conformance.harness.agent import Agent, Failed
from tests.conformance.harness.outage import Meeting
from tests.conformance.harness.run import Run
from tests.conformance.harness.words import Json

Play = Callable[[Run], None]
Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    play: Play
    #: About how many seconds it takes: those that take long begin first.
    lasts: float
    #: What it takes down ("agent" or "runtime"), so that nothing else may run beside it but others of its kind.
    outage: str
    #: Why a real kubelet does not do this, where it does not.
    beyond: str
    summary: str


class Suite:
    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []

    def scenario(self, *, lasts: float = 8, outage: str = "", beyond: str = "") -> Callable[[Play], Play]:
        def add(function: Play) -> Play:
            self._add(function.__name__, function, function.__doc__, lasts=lasts, outage=outage, beyond=beyond)
            return function

        return add

    def table(
        self, rows: Mapping[str, Row], *, lasts: float = 8, outage: str = "", beyond: str = ""
    ) -> Callable[[Callable[[Run, Row], None]], Callable[[Run, Row], None]]:
        """One scenario for each row, named after the function and the row's key."""

        def add(function: Callable[[Run, Row], None]) -> Callable[[Run, Row], None]:
            for key, row in rows.items():
                name = f"{function.__name__}-{key}"
                self._add(name, _bound(function, row), function.__doc__, lasts=lasts, outage=outage, beyond=beyond)
            return function

        return add

    def _add(self, name: str, play: Play, doc: str | None, *, lasts: float, outage: str, beyond: str) -> None:
        summary = (doc or "").strip().splitlines()[0]
        name = name.replace("_", "-")
        if any(known.name == name for known in self.scenarios):
            raise ValueError(f"two scenarios are called {name}")
        self.scenarios.append(
            Scenario(name=name, play=play, lasts=lasts, outage=outage, beyond=beyond, summary=summary)
        )


def _bound(function: Callable[[Run, Row], None], row: Row) -> Play:
    return lambda run: function(run, row)


suite = Suite()


def play(agent: Agent, scenario: Scenario, meeting: Meeting | None = None) -> Json:
    run = Run(agent, scenario.name, outage=scenario.outage, meeting=meeting)
    began = time.monotonic()
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
    finally:
        if meeting is not None:
            meeting.leave()
    return {
        "scenario": scenario.name,
        "verdict": verdict,
        "seconds": round(time.monotonic() - began, 1),
        "measures": run.measures,
        "why": why,
        "containers": run.container_ids() if why else [],
    }


def conduct(
    agent: Agent, scenarios: Sequence[Scenario], *, jobs: int, report: Callable[[Scenario, Json], None]
) -> list[Scenario]:
    """Play all: most side by side, `jobs` at a time, then those of each kind of outage all at once.

    `report` is called from several threads, one at a time. Returns those for which `agent` lacks the means.
    """
    lock = threading.Lock()

    def one(scenario: Scenario, meeting: Meeting | None = None) -> None:
        result = play(agent, scenario, meeting)
        with lock:
            report(scenario, result)

    skipped: list[Scenario] = []
    for outage in ("", "agent", "runtime"):
        chosen = sorted((s for s in scenarios if s.outage == outage), key=lambda s: -s.lasts)
        if not chosen:
            continue
        if outage and not agent.can(outage):
            skipped += chosen
            continue
        meeting = Meeting(len(chosen)) if outage else None
        with concurrent.futures.ThreadPoolExecutor(len(chosen) if outage else jobs) as pool:
            for done in [pool.submit(one, scenario, meeting) for scenario in chosen]:
                done.result()
    return skipped
