"""A manifest of this folder: what it is modelled on, what has to become of it, and how it fits onto a test's node.

The first lines of each file say it: `# Model:` in a sentence, `# Outcome:` in a word, and below it, indented, the
details that the outcome has. Used here and by tests/unit/api/test_real_world.py.
"""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "manifests"
#: What a file may become; all but `refused` are accepted. Several words: one for each of its workloads.
OUTCOMES = frozenset({"runs", "succeeds", "completes", "scheduled", "waits", "rejected", "refused"})
#: Where the stand-in has an nc as people know it.
NC = "/stand-in/nc"
#: Folders and files of the host that tests let pods see as they are; all else is private to the test.
_SHARED = ("/", "/proc", "/sys", "/etc/localtime", "/etc/machine-id")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    path: Path
    text: str
    model: str
    outcome: str
    #: Of `refused`: path and part of the message of each error. Of `waits`, `rejected`: reason and part of the message.
    details: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def accepted(self) -> bool:
        return self.outcome != "refused"

    def documents(self) -> list[dict[str, Any]]:
        """As any YAML parser reads it."""
        return [document for document in yaml.safe_load_all(self.text) if document]

    def pods(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The kind of each workload with its pod's spec."""
        for document in self.documents():
            spec = document.get("spec", {})
            match document["kind"]:
                case "Pod":
                    yield "Pod", spec
                case "Job":
                    yield "Job", spec["template"]["spec"]
                case "CronJob":
                    yield "CronJob", spec["jobTemplate"]["spec"]["template"]["spec"]


def read_all() -> list[Manifest]:
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _read(path: Path) -> Manifest:
    text = path.read_text()
    head = re.match(r"# Model: (?P<model>.+)\n# Outcome: (?P<outcome>\w+)\n(?P<details>(?:#   .+\n)*)(?!#)", text)
    assert head is not None, f"{path.name}: has to begin with a model and an outcome"
    details = [line.removeprefix("#   ").partition(": ") for line in head["details"].splitlines()]
    return Manifest(
        path=path,
        text=text,
        model=head["model"],
        outcome=head["outcome"],
        details=tuple((name.removesuffix(":"), fragment) for name, _, fragment in details),
    )


def fitted(manifest: Manifest, host: Path) -> Manifest:
    """The same with ports of the host that are free, and with folders of the host that are below `host`.

    What the manifest supposes to be on the host is made there, but for devices by an id.
    """
    text = manifest.text
    for port in sorted(_ports_of_the_host(manifest)):
        # On the host's network the number can stand anywhere, also in a program's arguments.
        shared = any(spec.get("hostNetwork") for _, spec in manifest.pods())
        place = rf"(?<![\w.]){port}\b" if shared else rf"(?<=hostPort: ){port}\b"
        text = re.sub(place, str(_free_port()), text)
    for path, kind, propagated in sorted(_paths_of_the_host(manifest)):
        own = host / (path.lstrip("/") or "root")
        _make(own, kind)
        if propagated:  # there has to be a shared mount, which not every machine's own are
            subprocess.run(["mount", "--bind", own, own], check=True)
            subprocess.run(["mount", "--make-shared", own], check=True)
        text = re.sub(rf"(path:\s*){re.escape(path)}(?=[\s,}}])", rf"\g<1>{own}", text)
    # Debian's busybox prefers its own nc to one on PATH, and its own has no -z: whether somebody listens.
    return dataclasses.replace(manifest, text=text.replace("nc -z", f"{NC} -z"))


def _ports_of_the_host(manifest: Manifest) -> set[int]:
    found = set()
    for _, spec in manifest.pods():
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            for port in container.get("ports", []):
                if spec.get("hostNetwork"):
                    found.add(port["containerPort"])
                elif "hostPort" in port:
                    found.add(port["hostPort"])
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _paths_of_the_host(manifest: Manifest) -> set[tuple[str, str, bool]]:
    """Paths that have to be private, their types, and whether mounts are passed on."""
    found = set()
    for _, spec in manifest.pods():
        mounts = [it for container in spec["containers"] for it in container.get("volumeMounts", [])]
        propagated = {mount["name"] for mount in mounts if "mountPropagation" in mount}
        for volume in spec.get("volumes", []):
            source, passed_on = volume.get("hostPath"), volume["name"] in propagated
            if source is not None and (passed_on or source["path"] not in _SHARED):
                found.add((source["path"], source.get("type", ""), passed_on))
    return found


def _make(place: Path, kind: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if "by-id" in place.parts:
        return  # a stick that is not plugged in
    match kind:
        case "" | "Directory":
            place.mkdir(exist_ok=True)
        case "CharDevice":
            os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        case "Socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(place))
        case "File":
            place.touch()
