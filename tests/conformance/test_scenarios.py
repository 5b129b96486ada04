"""Runs the scenarios against minikubelet on a private containerd, one test each.

Most run side by side, as the pods of a host do; those that kill the daemon come after, one at a time. Everything is
under way from the first test on, each test waits for its verdict. MINIKUBELET_TEST_CONTAINERD names another containerd.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.harness import Agent, Json, Scenario, play
from tests.conformance.scenarios import suite
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(900)]

#: As many scenarios as make the run short without making two cores the thing that is measured.
_AT_ONCE = 8

Verdicts = dict[str, "Future[Json]"]


@dataclasses.dataclass(kw_only=True)
class NodeAgent(Agent):
    node: PrivateNode

    def halt(self) -> None:
        self.node.stop(signal.SIGKILL)

    def boot(self) -> None:
        self.node.start()


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    node = PrivateNode(containerd=os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd"))
    try:
        node.create()
        node.start()
        yield node
    finally:
        node.destroy()


@pytest.fixture(scope="module")
def verdicts(node: PrivateNode, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """The verdict to come of every scenario that this session wants."""
    agent = NodeAgent(node.manifests, node.url, tmp_path_factory.mktemp("conformance"), node=node)
    wanted = {item.callspec.params["scenario"].name for item in request.session.items if hasattr(item, "callspec")}
    chosen = [s for s in suite.scenarios if s.name in wanted]
    futures: Verdicts = {s.name: Future() for s in chosen}

    def decide(scenario: Scenario) -> None:
        try:
            futures[scenario.name].set_result(play(agent, scenario))
        except BaseException as error:  # noqa: BLE001 - goes to the test that waits for it
            futures[scenario.name].set_exception(error)

    def conduct() -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(decide, (s for s in chosen if not s.alone)))
        for scenario in chosen:
            if scenario.alone:
                decide(scenario)

    threading.Thread(target=conduct, name="conformance", daemon=True).start()
    return futures


@pytest.mark.parametrize("scenario", suite.scenarios, ids=lambda s: s.name)
def test_scenario(scenario: Scenario, verdicts: Verdicts, node: PrivateNode) -> None:
    result = verdicts[scenario.name].result()
    if result["verdict"] != "passed":
        pytest.fail(
            f"{scenario.summary}\n{result['why']}\nthe end of the daemon's log:\n{_tail(node.log)}", pytrace=False
        )


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]
