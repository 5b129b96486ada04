"""A node with real software on it: the samples' own manifests, with paths of the host exchanged for private ones."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.images import BUSYBOX, PAUSE
from tests.support.node import PrivateNode
from tests.support.runtime_events import RuntimeEvents
from tests.support.software import SOFTWARE, PackagesUnavailableError, image_of

SAMPLES = Path(__file__).parents[3] / "configs/samples"


class Place:
    """The node's folder, and what there is to see of it from outside."""

    def __init__(self, node: PrivateNode, runtime: RuntimeEvents) -> None:
        self.node, self.runtime = node, runtime
        #: What the host has at /var/tmp.
        self.host = node.base / "host"

    def put(self, sample: str, edit: Callable[[str], str] = lambda text: text) -> None:
        """A sample as it stands, but for the host's folder and the given edit."""
        text = edit((SAMPLES / f"{sample}.yaml").read_text()).replace("/var/tmp/", f"{self.host}/")
        staged = self.node.base / "staged"
        staged.write_text(text)
        staged.rename(self.node.manifests / f"{sample}.yaml")

    def take(self, sample: str) -> None:
        (self.node.manifests / f"{sample}.yaml").unlink()

    def pod(self, name: str) -> dict[str, Any]:
        """As it is now; {} if it is not listed."""
        pods: list[dict[str, Any]] = self.node.get("/pods")["items"]
        return next((pod for pod in pods if pod["metadata"]["name"] == name), {})

    def until(self, what: str, test: Callable[[], Any], *, within: float = 120) -> Any:
        deadline = time.monotonic() + within
        while not (found := test()):
            if time.monotonic() > deadline:
                printed = [f"{log}:\n{log.read_text()[-2000:]}" for log in self.node.logs.glob("*/*/*.log")]
                pytest.fail("\n".join((f"not within {within} s: {what}", self.node.log.read_text()[-3000:], *printed)))
            time.sleep(0.05)
        return found

    def ready(self, name: str, *, other_than: str = "") -> dict[str, Any]:
        """The pod of this name when it is ready, and not the one of that uid any more."""

        def there() -> dict[str, Any]:
            pod = self.pod(name)
            conditions = {it["type"]: it["status"] for it in pod.get("status", {}).get("conditions", [])}
            wanted = pod and pod["metadata"]["uid"] != other_than and conditions.get("Ready") == "True"
            return pod if wanted else {}

        found: dict[str, Any] = self.until(f"{name} is ready", there)
        return found

    def completes(self, job: str) -> None:
        self.until(f"the job {job} is there", lambda: job in self.node.cli("get", "jobs"))
        self.node.cli("wait", f"job/{job}", "--for=condition=Complete", "--timeout=120s")

    def gone(self, name: str) -> None:
        self.until(f"{name} is gone", lambda: not self.pod(name))

    def printed(self, pod: str, container: str) -> list[str]:
        logs = sorted(self.node.logs.glob(f"*_{pod}_*/{container}/*.log"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return [re.sub(r"^\S+ (?:stdout|stderr) [FP] ?", "", line) for line in lines]


@pytest.fixture(scope="package")
def real_node() -> Iterator[PrivateNode]:
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    if os.geteuid() or not shutil.which(binary):
        pytest.skip("needs root and containerd")
    try:
        images = [image_of(name) for name in SOFTWARE]
    except PackagesUnavailableError as error:
        pytest.skip(f"the software's Debian packages cannot be had: {error}")
    node = PrivateNode(containerd=binary)
    try:
        node.create(images=(BUSYBOX, PAUSE, *images))
        node.start()
        yield node
    finally:
        node.destroy()
    assert node.leftovers() == []


@pytest.fixture
def place(real_node: PrivateNode) -> Iterator[Place]:
    with RuntimeEvents(real_node) as runtime:
        place = Place(real_node, runtime)
        yield place
        for file in real_node.manifests.iterdir():
            file.unlink()
        place.until("all pods are gone", lambda: not real_node.get("/pods")["items"])
