"""What the daemon says of itself: fills the server's `Parts` from the rooms. Made and fed by `daemon.py`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version

from minikubelet.api.decode import ManifestError, ManifestNote
from minikubelet.config import Config
from minikubelet.pods.live import LivePods
from minikubelet.pods.recorder import EventRecorder
from minikubelet.pods.times import rfc3339
from minikubelet.runtime.state import RuntimeState
from minikubelet.server.events import encoded_events
from minikubelet.server.parts import ManifestProblem, ManifestsStatus, Parts, RuntimeStatus, Status
from minikubelet.sources.desired import Desired


class Reporting:
    """`desired`, `findings` and `runtime` are set as they become known."""

    def __init__(self, config: Config, *, live: LivePods, recorder: EventRecorder, state: RuntimeState) -> None:
        self._config = config
        self._live = live
        self._recorder = recorder
        self._state = state
        self._started_at = time.time()
        self.desired: Desired | None = None
        self.findings: tuple[str, ...] = ()
        self.runtime = RuntimeStatus(endpoint=config.container_runtime_endpoint)
        #: What the daemon waits for before it can run pods; None: nothing.
        self.waiting_for: str | None = "the container runtime has not been reached yet"

    def parts(self) -> Parts:
        readyz = {"containerd": self._containerd, "manifests": self._manifests}
        return Parts(
            pods=self._live.encoded,
            events=lambda: encoded_events(self._recorder.events(), node=self._config.node),
            status=self.status,
            livez={"ping": lambda: None},
            readyz=readyz,
        )

    def status(self) -> Status:
        desired = self.desired or Desired()
        runtime = RuntimeStatus(
            endpoint=self.runtime.endpoint,
            connected=self._state.connected,
            name=self.runtime.name,
            version=self.runtime.version,
            api_version=self.runtime.api_version,
            reason=self._containerd() or "",
        )
        failing = {"containerd": self._containerd(), "manifests": self._manifests()}
        return Status(
            version=version("minikubelet"),
            node=self._config.node,
            started_at=rfc3339(self._started_at),
            runtime=runtime,
            manifests=ManifestsStatus(
                folder=str(self._config.static_pod_path),
                errors=_problems(desired.errors.values()),
                notes=_problems(desired.notes.values()),
                being_written=tuple(sorted(desired.being_written)),
            ),
            pods=dict(Counter(pod.status.phase if pod.status else "Pending" for pod in self._live.all())),
            findings=self.findings,
            not_ready={check: reason for check, reason in failing.items() if reason is not None},
        )

    def _containerd(self) -> str | None:
        if self._state.connected:
            return self.waiting_for
        return self.waiting_for or "containerd is away; pods go on running and are taken care of when it is back"

    def _manifests(self) -> str | None:
        return None if self.desired is not None else "the manifests have not been read yet"


def _problems(by_file: Iterable[Iterable[ManifestError | ManifestNote]]) -> tuple[ManifestProblem, ...]:
    return tuple(
        ManifestProblem(file=it.file, line=it.line, document=it.document, path=it.path, message=it.message)
        for found in by_file
        for it in found
    )
