"""What tests of Jobs on a node of its own share: manifests, the Jobs' books as they lie on the disk, waiting."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.node import PrivateNode

POLITE = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
DEAF = "trap '' TERM; while :; do sleep 0.1; done"


@contextlib.contextmanager
def private_node(configuration: str = "") -> Iterator[PrivateNode]:
    """With its daemon running. In the end nothing of it may be left on this machine."""
    here = PrivateNode()
    here.configure(configuration)
    try:
        here.create()
        here.start()
        yield here
    finally:
        here.destroy()
    assert here.leftovers() == []


def container(name: str, script: str, **fields: Any) -> dict[str, Any]:
    image = {"image": "busybox:1.36", "imagePullPolicy": "IfNotPresent"}
    return {"name": name, "command": ["sh", "-c", script], **image, **fields}


def sidecar(script: str = POLITE) -> dict[str, Any]:
    return container("side", script, restartPolicy="Always")


def job(name: str, spec: dict[str, Any], **pod: Any) -> dict[str, Any]:
    """`pod`: fields of its pods' spec."""
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, **pod}}
    spec = {**spec, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def put(node: PrivateNode, manifest: dict[str, Any]) -> None:
    """It appears, or changes, at one moment."""
    staged = node.base / "staged.json"
    staged.write_text(json.dumps(manifest))
    staged.rename(node.manifests / f"{manifest['metadata']['name']}.json")


def read(node: PrivateNode, query: str, *values: object) -> list[Any]:
    """From the books on the disk, whether the daemon runs or not."""
    path = node.base / "minikubelet" / "minikubelet.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(query, values).fetchall()


def write(node: PrivateNode, statement: str, *values: object) -> None:
    """Into the books, while the daemon does not run."""
    path = node.base / "minikubelet" / "minikubelet.db"
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        connection.execute(statement, values)


def conditions(node: PrivateNode, name: str) -> list[str]:
    """Types of those that are True, as the books have them; none if there is no such Job."""
    found = read(node, "SELECT conditions FROM jobs WHERE name = ?", name)
    return [each["type"] for (text,) in found for each in json.loads(text) if each["status"] == "True"]


def is_finished(node: PrivateNode, name: str) -> bool:
    return not {"Complete", "Failed"}.isdisjoint(conditions(node, name))


def until(test: Callable[[], object], *, within: float = 60, tell: Callable[[], object] = lambda: "") -> None:
    """Looks from outside, where nothing tells."""
    deadline = time.monotonic() + within
    while not test():
        assert time.monotonic() < deadline, tell()
        time.sleep(0.05)


def until_finished(node: PrivateNode, name: str, *, within: float = 90) -> None:
    until(lambda: is_finished(node, name), within=within, tell=lambda: node.log.read_text()[-5000:])


def crash(node: PrivateNode) -> None:
    node.stop(signal.SIGKILL)


def pods(node: PrivateNode, name: str) -> list[dict[str, Any]]:
    """Of a Job, as the daemon shows them."""
    found = node.get("/pods")["items"]
    return [pod for pod in found if pod["metadata"].get("labels", {}).get("job-name") == name]


def containers(node: PrivateNode) -> set[str]:
    """Ids in the runtime, those of sandboxes included."""
    return set(node.ctr("containers", "ls", "--quiet").split())


def tasks(node: PrivateNode) -> dict[str, str]:
    """Processes' ids by container."""
    lines = node.ctr("tasks", "ls").splitlines()[1:]
    return {line.split()[0]: line.split()[1] for line in lines if line.split()[2] == "RUNNING"}
