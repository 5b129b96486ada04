"""What a private containerd tells of its containers as it happens: the witness of the order in which they end."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
from typing import Any, Self

from tests.support.node import PrivateNode

_LINE = re.compile(r"^(?P<time>\S+ \S+?)\d{3} \+0000 UTC \S+ (?P<topic>/\S+) (?P<event>\{.*\})$", re.MULTILINE)


class RuntimeEvents:
    """Use as a context manager, entered before what is to be seen; the events go to a file of the node's folder."""

    def __init__(self, node: PrivateNode) -> None:
        self._node = node
        self._file = node.base / "runtime-events"
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        ctr = str(self._node.containerd.binary.with_name("ctr"))
        command = [ctr, "--address", str(self._node.containerd.socket), "--namespace", "k8s.io", "events"]
        with self._file.open("wb") as file:
            self._watch = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, start_new_session=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.terminate()
            self._watch.wait()

    def events(self, topic: str) -> list[tuple[dt.datetime, dict[str, Any]]]:
        """All events of a topic such as /tasks/exit, with their times, in their order."""
        found = _LINE.finditer(self._file.read_text())
        return [
            (dt.datetime.fromisoformat(f"{match['time']}+00:00"), json.loads(match["event"]))
            for match in found
            if match["topic"] == topic
        ]

    def created(self, container_id: str) -> dt.datetime:
        return next(at for at, event in self.events("/containers/create") if event["id"] == container_id)

    def exits(self) -> dict[str, int]:
        """Exit codes of containers by their id, in the order in which they ended."""
        events = [event for _, event in self.events("/tasks/exit") if event["id"] == event["container_id"]]
        return {event["container_id"]: event.get("exit_status", 0) for event in events}
