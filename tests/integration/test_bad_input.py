"""A pod goes on undisturbed while everything that is no good manifest is dropped beside its own.

Each error appears in GET /status in its own words and goes away with its file; the pod's containers, counts and
conditions never change. The broken manifests are those of the unit tests' corpus, the rules of PH 2.4 among them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]

CORPUS = Path(__file__).parents[1] / "unit" / "api" / "corpus"
BROKEN = sorted(path for path in CORPUS.iterdir() if path.suffix in (".yaml", ".json"))

PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 1}
STEADY = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "steady"},
    "spec": {
        "initContainers": [
            {
                "name": "side",
                "image": "busybox:1.36",
                "command": ["sleep", "3600"],
                "restartPolicy": "Always",
                "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
                "livenessProbe": PROBE,
            }
        ],
        "containers": [
            {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"], "readinessProbe": PROBE}
        ],
    },
}

Json = dict[str, Any]


def until(what: str, test: Callable[[], bool], *, within: float = 60) -> None:
    deadline = time.monotonic() + within
    while not test():
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.02)


class Folder:
    def __init__(self, node: PrivateNode) -> None:
        self._node = node
        self.path = node.manifests

    def drop(self, name: str, data: bytes) -> None:
        fresh = self.path / f".{name}.new"
        fresh.write_bytes(data)
        fresh.rename(self.path / name)

    def errors(self) -> dict[str, list[str]]:
        """By file, in the words of `.expected`: LINE: PATH: MESSAGE."""
        found: dict[str, list[str]] = {}
        for error in self._node.get("/status")["manifests"]["errors"]:
            path = f"{error['path']}: " if error.get("path") else ""
            found.setdefault(error["file"], []).append(f"{error['line']}: {path}{error['message']}")
        return found

    def being_written(self) -> list[str]:
        written: list[str] = self._node.get("/status")["manifests"].get("beingWritten", [])
        return written

    def until_errors(self, expected: dict[str, list[str]]) -> None:
        until(f"as many files with errors: {sorted(expected)}", lambda: self.errors().keys() == expected.keys())
        assert self.errors() == expected


@pytest.fixture(scope="module")
def node() -> Iterator[PrivateNode]:
    node = PrivateNode()
    try:
        node.create()
        node.start()
        yield node
    finally:
        node.destroy()


@pytest.fixture(scope="module")
def steady(node: PrivateNode) -> Json:
    """What must not change, as it is when the pod is up."""
    (node.manifests / "steady.json").write_text(json.dumps(STEADY))
    until("the pod is Ready", lambda: any("True" in str(c) for c in picture(node).get("Ready", ())))
    return picture(node)


def picture(node: PrivateNode) -> Json:
    """Container ids, counts and states, and conditions with the times of their changes."""
    pods = node.get("/pods")["items"]
    status = pods[0].get("status", {}) if pods else {}
    everyone = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    return {
        "pods": [pod["metadata"]["uid"] for pod in pods],
        **{c["name"]: [c.get("containerID"), c["restartCount"], c["state"], c["ready"]] for c in everyone},
        **{c["type"]: [c["status"], c["lastTransitionTime"]] for c in status.get("conditions", [])},
    }


@pytest.fixture
def folder(node: PrivateNode, steady: Json) -> Iterator[Folder]:
    """The folder with the steady pod; after the test that one is as it was, and no error is left."""
    folder = Folder(node)
    try:
        yield folder
        assert picture(node) == steady
    finally:
        for path in folder.path.iterdir():
            if path.name != "steady.json":
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    until("no error is left", lambda: not folder.errors())
    assert picture(node) == steady


def expected_of(manifest: Path) -> list[str]:
    return manifest.with_name(f"{manifest.name}.expected").read_text().splitlines()


@pytest.mark.parametrize("manifest", BROKEN, ids=lambda path: path.name)
def test_a_broken_manifest_is_told_and_disturbs_no_pod(manifest: Path, folder: Folder) -> None:
    folder.drop(manifest.name, manifest.read_bytes())
    folder.until_errors({manifest.name: expected_of(manifest)})


def test_all_broken_manifests_at_once_are_told_each_on_its_own_file(folder: Folder) -> None:
    for manifest in BROKEN:
        folder.drop(manifest.name, manifest.read_bytes())
    folder.until_errors({manifest.name: expected_of(manifest) for manifest in BROKEN})


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere.yaml")


def _data(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_bytes(data)
        fresh.rename(path)

    return write


NO_FILE = "is not a regular file; only files are read"
BINARY = "the file is binary, not YAML or JSON text"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        pytest.param(_loop, "cannot be read: Too many levels of symbolic links", id="unreadable"),
        pytest.param(os.mkfifo, NO_FILE, id="pipe"),
        pytest.param(_link_to_nowhere, "is a symbolic link to nowhere.yaml, which is not there", id="link to nowhere"),
        pytest.param(_data(b"\x7fELF\x02\x01\x01\x00\x00" * 1000), BINARY, id="binary"),
        pytest.param(
            _data("kind: Pod\n".encode("utf-16")),
            "the file is encoded as UTF-16 or UTF-32; save it as UTF-8",
            id="UTF-16",
        ),
        pytest.param(
            _data(b"#" * 10 * 1024 * 1024), "is too large: a manifest file must be smaller than 10 MiB", id="too large"
        ),
        pytest.param(
            _data(b"- x\n" * 1_000_000),
            "expected an object with apiVersion and kind, found a list",
            id="very long list",
        ),
        pytest.param(_data(b"a: " + b"[" * 500), "nested more than 64 levels deep", id="deep"),
    ],
)
def test_what_is_no_manifest_at_all_is_told_in_one_plain_message(
    make: Callable[[Path], None], error: str, folder: Folder
) -> None:
    make(folder.path / "odd.yaml")
    until("an error", lambda: "odd.yaml" in folder.errors())
    (told,) = folder.errors()["odd.yaml"]
    assert told.partition(": ")[2] == error


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Path.mkdir, id="folder"),
        pytest.param(_data(b""), id="empty"),
        pytest.param(_data(b"---\n# nothing\n---\n"), id="remarks only"),
        pytest.param(lambda path: path.symlink_to("/etc"), id="link to a folder"),
        pytest.param(lambda path: path.with_name(".hidden.yaml").write_text("kind: ["), id="hidden"),
        pytest.param(lambda path: path.with_name("notes.txt").write_text("kind: ["), id="another extension"),
    ],
)
def test_what_is_not_meant_as_a_manifest_is_no_error(make: Callable[[Path], None], folder: Folder) -> None:
    make(folder.path / "odd.yaml")
    folder.drop("seen.yaml", b"kind: [")  # its error tells that the folder was read after that
    until("seen", lambda: "seen.yaml" in folder.errors())
    assert list(folder.errors()) == ["seen.yaml"]


def test_a_file_that_is_being_written_waits_until_it_is_closed(folder: Folder) -> None:
    with (folder.path / "slow.yaml").open("w") as file:
        file.write("apiVersion: v1\nkind: Po")
        file.flush()
        until("being written", lambda: folder.being_written() == ["slow.yaml"])
        assert not folder.errors()
        file.write("d\n")
    until("its errors", lambda: "slow.yaml" in folder.errors())
    assert folder.errors()["slow.yaml"] == [
        "1: metadata.name: Required value: name is needed for the pod",
        "1: spec.containers: Required value",
    ]
    assert folder.being_written() == []
