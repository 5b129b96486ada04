"""Pod YAML as people have it, on a real containerd: each manifest becomes what it should, and goes again in order.

All run side by side on one node, a few at a time; each test tells of one. Images are one stand-in under all names.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import pytest

from tests.integration.real_world.reading import Manifest, fitted, read_all
from tests.integration.real_world.stand_in import images_for
from tests.support.images import PAUSE
from tests.support.node import PrivateNode
from tests.support.runtime_events import RuntimeEvents

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(600)]

Json = dict[str, Any]
MANIFESTS = read_all()
AT_A_TIME = 10
#: Seconds that each step may take; a step takes one or two on an idle machine.
PATIENCE = 120.0
#: Seconds between two looks at the node, which serve everybody who waits.
PERIOD = 0.2


class Sight:
    """What the node shows, looked at again and again by one thread for all that wait."""

    def __init__(self, node: PrivateNode) -> None:
        self._node = node
        self._news = threading.Condition()
        self._shown: Json = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="sight")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(PERIOD):
            shown = {it: self._node.get(f"/{it}")["items"] for it in ("pods", "jobs", "cronjobs")}
            shown["errors"] = self._node.get("/status")["manifests"]["errors"]
            with self._news:
                self._shown = shown
                self._news.notify_all()

    def until(self, what: str, test: Callable[[Json], Any]) -> Any:
        """What the test finds once it finds something. Raises AssertionError."""
        found: Any = None

        def is_there() -> bool:
            nonlocal found
            found = test(self._shown) if self._shown else None
            return bool(found)

        with self._news:
            there = self._news.wait_for(is_there, timeout=PATIENCE)
        assert there, f"not within {PATIENCE} s: {what}"
        return found


class Stage:
    def __init__(self, node: PrivateNode, sight: Sight, runtime: RuntimeEvents) -> None:
        self.node, self.sight, self.runtime = node, sight, runtime

    def play(self, manifest: Manifest) -> str:
        """Drop a manifest, see what becomes of it, take it away. Returns what went wrong, or nothing."""
        try:
            staged = self.node.base / f"staged-{manifest.name}"
            staged.write_text(manifest.text)
            place = self.node.manifests / manifest.path.name
            staged.rename(place)
            self._see(manifest)
            before = [pod for pod in self.node.get("/pods")["items"] if _is_of(pod, manifest)]
            place.unlink()
            self.sight.until(f"{manifest.name} is gone", lambda it: not any(map(_of(manifest), it["pods"])))
            for pod in before:
                self._ended_in_order(pod)
        except Exception:  # noqa: BLE001 - told by the test of this manifest
            return f"{traceback.format_exc()}\n{self._logs(manifest)}"
        return ""

    def _see(self, manifest: Manifest) -> None:
        """Wait until it has become what it should."""
        until = self.sight.until
        of_it = _of(manifest)
        match manifest.outcome:
            case "refused":
                file = manifest.path.name
                until(f"{file} is refused", lambda it: [error for error in it["errors"] if error["file"] == file])
                assert not any(map(of_it, self.node.get("/pods")["items"]))
            case "runs":
                until(f"{manifest.name} is ready", lambda it: _all(it["pods"], of_it, _is_ready))
            case "succeeds":
                until(f"{manifest.name} succeeds", lambda it: _all(it["pods"], of_it, _phase("Succeeded")))
            case "completes":
                until(f"{manifest.name} completes", lambda it: _all(it["jobs"], of_it, _is_complete))
            case "scheduled":
                until(f"{manifest.name} is scheduled", lambda it: any(map(of_it, it["cronjobs"])))
            case "rejected":
                ((reason, message),) = manifest.details
                found = until(f"{manifest.name} fails", lambda it: _all(it["pods"], of_it, _phase("Failed")))
                assert found[0]["status"]["reason"] == reason
                assert message in found[0]["status"]["message"]
            case "waits":
                ((reason, message),) = manifest.details
                until(f"{manifest.name} waits", lambda it: _all(it["pods"], of_it, _waits(reason, message)))

    def _ended_in_order(self, pod: Json) -> None:
        """The regular containers before the sidecars, and those in reverse order."""
        ended = list(self.runtime.exits())
        sidecars = {it["name"] for it in pod["spec"].get("initContainers", []) if it.get("restartPolicy") == "Always"}
        gates = [it for it in pod["status"].get("initContainerStatuses", []) if it["name"] in sidecars]
        order = [[_id(it) for it in pod["status"].get("containerStatuses", []) if it.get("containerID")]]
        order += [[_id(it)] for it in reversed(gates) if it.get("containerID")]
        places = [[ended.index(it) for it in ids] for ids in order]
        for earlier, later in itertools.pairwise(places):
            assert max(earlier, default=-1) < min(later), f"{pod['metadata']['name']}: {order} ended as {ended}"

    def _logs(self, manifest: Manifest) -> str:
        """For whoever reads of a failure: statuses, events and logs of what is of this manifest."""
        pods = [pod for pod in self.node.get("/pods")["items"] if _is_of(pod, manifest)]
        names = {pod["metadata"]["name"] for pod in pods}
        events = [it for it in self.node.get("/events")["items"] if it["involvedObject"]["name"] in names]
        told = [f"{it['reason']}: {it['message']}" for it in events]
        logs = [log for name in names for log in self.node.logs.glob(f"*_{name}_*/*/*.log")]
        printed = [f"{log}:\n{log.read_text(errors='replace')[-1000:]}" for log in logs]
        return "\n".join((*(str(pod["status"]) for pod in pods), *told, *printed))


def _of(manifest: Manifest) -> Callable[[Json], bool]:
    return lambda shown: _is_of(shown, manifest)


def _is_of(shown: Json, manifest: Manifest) -> bool:
    """Whether a pod, Job or CronJob comes from this manifest."""
    if not manifest.accepted:
        return False
    name, labels = shown["metadata"]["name"], shown["metadata"].get("labels", {})
    workloads = [it["metadata"]["name"] for it in manifest.documents() if it["kind"] in ("Pod", "Job", "CronJob")]
    return name in workloads or labels.get("job-name") in workloads


def _all(shown: list[Json], of_it: Callable[[Json], bool], test: Callable[[Json], bool]) -> list[Json]:
    """The manifest's own, if there are any and all of them pass."""
    found = [it for it in shown if of_it(it)]
    return found if all(map(test, found)) else []


def _phase(wanted: str) -> Callable[[Json], bool]:
    return lambda pod: bool(pod["status"]["phase"] == wanted)


def _is_ready(pod: Json) -> bool:
    conditions = {it["type"]: it["status"] for it in pod["status"].get("conditions", [])}
    return bool(pod["status"]["phase"] == "Running") and conditions.get("Ready") == "True"


def _is_complete(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", [])
    return any((it["type"], it["status"]) == ("Complete", "True") for it in conditions)


def _waits(reason: str, message: str) -> Callable[[Json], bool]:
    def test(pod: Json) -> bool:
        states = [it["state"].get("waiting", {}) for it in pod["status"].get("containerStatuses", [])]
        return any(it.get("reason") == reason and message in it.get("message", "") for it in states)

    return test


def _id(status: Json) -> str:
    return str(status["containerID"]).partition("://")[2]


@pytest.fixture(scope="module")
def faults() -> Iterator[dict[str, str]]:
    """What went wrong with each manifest, by its name."""
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    if os.geteuid() or not shutil.which(binary):
        pytest.skip("needs root and containerd")
    node = PrivateNode(containerd=binary)
    try:
        manifests = [fitted(it, node.base / "host" / it.name) if it.accepted else it for it in MANIFESTS]
        node.create(images=(PAUSE, *images_for(manifests)))
        node.start()
        with RuntimeEvents(node) as runtime, Sight(node) as sight, ThreadPoolExecutor(AT_A_TIME) as threads:
            stage = Stage(node, sight, runtime)
            found = dict(zip((it.name for it in manifests), threads.map(stage.play, manifests), strict=True))
        yield found
    finally:
        node.destroy()
    assert node.leftovers() == []


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda it: it.name)
def test_a_manifest_becomes_what_it_should(manifest: Manifest, faults: dict[str, str]) -> None:
    assert not faults[manifest.name], faults[manifest.name]
