"""Runs the scenarios against minikubelet on a private containerd, one test each.

Most run side by side, as the pods of a host do; those that kill the daemon, or containerd, come after, all at once.
Everything is under way from the first test on, each test waits for its verdict. MINIKUBELET_TEST_CONTAINERD names
another containerd.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import grpc
import pytest

from minikubelet.runtime.pb import cri_pb2, cri_pb2_grpc
from tests.conformance.harness.agent import Agent
from tests.conformance.harness.suite import Scenario, conduct
from tests.conformance.harness.words import Json
from tests.conformance.scenarios import suite
from tests.support.images import BUSYBOX, OTHER_BUSYBOX, PAUSE
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(900)]

#: As many scenarios as make the run short without making two cores the thing that is measured.
_AT_ONCE = 8

Verdicts = dict[str, "Future[Json]"]


@dataclasses.dataclass(kw_only=True)
class NodeAgent(Agent):
    node: PrivateNode

    def can(self, outage: str) -> bool:
        return outage in ("agent", "runtime")

    def halt(self, outage: str) -> None:
        if outage == "agent":
            self.node.stop(signal.SIGKILL)
        else:
            self.node.containerd.stop()

    def boot(self, outage: str) -> None:
        if outage == "agent":
            self.node.start()
        else:
            self.node.containerd.start()

    def forget(self, container_id: str) -> bool:
        with contextlib.closing(grpc.insecure_channel(f"unix://{self.node.containerd.socket}")) as channel:
            request = cri_pb2.RemoveContainerRequest(container_id=container_id)
            cri_pb2_grpc.RuntimeServiceStub(channel).RemoveContainer(request, timeout=20)
        return True


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    node = PrivateNode(containerd=os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd"))
    try:
        node.create(images=(BUSYBOX, OTHER_BUSYBOX, PAUSE))
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

    def report(scenario: Scenario, result: Json) -> None:
        futures[scenario.name].set_result(result)

    def run() -> None:
        try:
            conduct(agent, chosen, jobs=_AT_ONCE, report=report)
        except BaseException as error:  # noqa: BLE001 - goes to the tests that wait
            for future in futures.values():
                if not future.done():
                    future.set_exception(error)

    threading.Thread(target=run, name="conformance", daemon=True).start()
    return futures


@pytest.mark.parametrize("scenario", suite.scenarios, ids=lambda s: s.name)
def test_scenario(scenario: Scenario, verdicts: Verdicts, node: PrivateNode) -> None:
    result = verdicts[scenario.name].result()
    if result["verdict"] != "passed":
        pytest.fail(
            f"{scenario.summary}\n{result['why']}\nthe daemon's log of it:\n{_log_of(node.log, scenario.name)}\n"
            f"containerd's:\n{_lines(node.containerd.log, result['containers'])}",
            pytrace=False,
        )


def _log_of(log: Path, name: str) -> str:
    """The lines that name the pod, and those that only give its uid."""
    uids = re.findall(rf'"pod":"default/{re.escape(name)}","uid":"([^"]+)"', log.read_text(errors="replace"))
    return _lines(log, [name, *uids])


def _lines(log: Path, words: Sequence[str]) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if any(word in line for word in words)]
    return "\n".join(lines[-60:])
