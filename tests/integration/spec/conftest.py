"""A whole node on a real containerd, for what of a Pod's spec its own processes can see."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.images import BUSYBOX, PAUSE, Image
from tests.support.node import PrivateNode
from tests.support.printed import printed_lines

_NUMBERS = itertools.count()
#: Runs as a user that has no number in the image.
NAMED = Image(names=("docker.io/library/named:1",), user="app")
#: Says something of its own, or what it is told to.
WORDED = Image(names=("docker.io/library/worded:1",), entrypoint=("echo",), cmd=("from the image",))
NUMBERED = Image(names=("docker.io/library/numbered:1",), user="1000")


class Lab:
    """Pods by name, each in a file of its own; `done` takes them away again."""

    def __init__(self, node: PrivateNode) -> None:
        self.node = node
        self._put: set[str] = set()

    def put(self, name: str = "", *, metadata: dict[str, Any] | None = None, **spec: Any) -> str:
        """A pod; its name. `spec` has to have `containers`; restartPolicy is Never if nothing is said."""
        name = name or f"pod{next(_NUMBERS)}"
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "dnsPolicy": "Default", **spec}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": spec}
        staged = self.node.base / "staged"
        staged.write_text(json.dumps(pod))
        staged.rename(self.node.manifests / f"{name}.json")
        self._put.add(name)
        return name

    def take(self, name: str) -> None:
        (self.node.manifests / f"{name}.json").unlink()
        self._put.discard(name)

    def pod(self, name: str) -> dict[str, Any]:
        """As it is now; {} if it is not listed."""
        pods: list[dict[str, Any]] = self.node.get("/pods")["items"]
        return next((pod for pod in pods if pod["metadata"]["name"] == name), {})

    def until(self, what: str, test: Callable[[], Any], *, within: float = 60) -> Any:
        deadline = time.monotonic() + within
        while not (found := test()):
            if time.monotonic() > deadline:
                log = self.node.log.read_text()[-3000:]
                pytest.fail(f"not within {within} s: {what}; pods: {self.node.get('/pods')['items']}; log: {log}")
            time.sleep(0.05)
        return found

    def comes_to(self, name: str, phase: str) -> dict[str, Any]:
        """The pod when it has come to this phase."""

        def there() -> dict[str, Any]:
            pod = self.pod(name)
            return pod if pod and pod["status"]["phase"] == phase else {}

        found: dict[str, Any] = self.until(f"{name} is {phase}", there)
        return found

    def gone(self, name: str) -> None:
        self.until(f"{name} is gone", lambda: not self.pod(name))

    def printed(self, name: str, container: str = "main") -> str:
        return "\n".join(printed_lines(self.node.logs.glob(f"*_{name}_*/{container}/*.log")))

    def says(self, script: str, *, metadata: dict[str, Any] | None = None, **fields: Any) -> str:
        """What a container prints that runs a script to its end. `fields` are the container's; `spec` is the pod's."""
        spec = fields.pop("spec", {})
        name = self.put(metadata=metadata, containers=[sh(script, **fields)], **spec)
        ended = ("Succeeded", "Failed")
        self.until(f"{name} has ended", lambda: self.pod(name).get("status", {}).get("phase") in ended)
        return self.printed(name)

    def waiting(self, name: str, reason: str) -> str:
        """The message of the first container once it waits for that reason."""

        def message() -> str:
            for status in self.pod(name).get("status", {}).get("containerStatuses", []):
                waiting = status["state"].get("waiting", {})
                if waiting.get("reason") == reason:
                    return str(waiting["message"])
            return ""

        found: str = self.until(f"{name} waits for {reason}", message)
        return found

    def event(self, name: str, reason: str) -> str:
        """The message of the newest event of a pod with this reason, once there is one."""

        def message() -> str:
            events = self.node.get("/events")["items"]
            found = [it["message"] for it in events if it["involvedObject"]["name"] == name and it["reason"] == reason]
            return str(found[-1]) if found else ""

        found: str = self.until(f"an event {reason} of {name}", message)
        return found

    def done(self) -> None:
        for name in sorted(self._put):
            self.take(name)
        self.until("all pods are gone", lambda: not self.node.get("/pods")["items"])


def sh(script: str, *, name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **fields}


FOREVER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"


def _started(config: str) -> Iterator[PrivateNode]:
    binary = os.environ.get("MINIKUBELET_TEST_CONTAINERD", "containerd")
    if os.geteuid() or not shutil.which(binary):
        pytest.skip("needs root and containerd")
    node = PrivateNode(containerd=binary)
    try:
        node.base.chmod(0o711)  # a pod with users of its own has to find its way to its root file system
        node.configure(config.replace("{base}", str(node.base)))
        node.create(images=(BUSYBOX, PAUSE, NAMED, NUMBERED, WORDED))
        node.start()
        yield node
    finally:
        node.destroy()
    assert node.leftovers() == []


@pytest.fixture(scope="package")
def shared_node() -> Iterator[PrivateNode]:
    """One daemon for all of these tests; its configuration is the default one but for names and cgroups."""
    yield from _started("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n")


@pytest.fixture
def lab(shared_node: PrivateNode) -> Iterator[Lab]:
    lab = Lab(shared_node)
    yield lab
    lab.done()


@pytest.fixture
def resolver_lab() -> Iterator[Lab]:
    """A node whose resolver settings are in a file of its own, `resolv.conf` in its folder."""
    for node in _started("resolvConf: {base}/resolv.conf\n"):
        yield Lab(node)


@pytest.fixture
def small_lab() -> Iterator[Lab]:
    """A node of its own that offers little, for tests that fill it."""
    config = """maxPods: 3
podPidsLimit: 40
nodeLabels: {disk: ssd}
allowedUnsafeSysctls: ["net.core.*"]
seccompDefault: true
runtimeClasses: {plain: runc, odd: nosuch}
"""
    for node in _started(config):
        yield Lab(node)
