"""What the daemon says of itself: fills the server's `Parts` from the rooms. Made and fed by `daemon.py`."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version

import structlog

from minikubelet.api.decode import ManifestError, ManifestNote
from minikubelet.config import Config
from minikubelet.pods.live import LivePods
from minikubelet.pods.recorder import EventRecorder, RecordedEvent
from minikubelet.pods.times import rfc3339
from minikubelet.runtime.checks import Finding, RuntimeFacts
from minikubelet.runtime.state import RuntimeState
from minikubelet.server.events import encoded_events
from minikubelet.server.parts import ImageArchivesStatus, ManifestProblem, ManifestsStatus, Parts, RuntimeStatus, Status
from minikubelet.sources.desired import Desired

log = structlog.get_logger(__name__)


class Reporting:
    """`desired` is set with each reading of the folder."""

    def __init__(
        self,
        config: Config,
        *,
        live: LivePods,
        recorder: EventRecorder,
        state: RuntimeState,
        job_events: Callable[[], Awaitable[list[RecordedEvent]]],
    ) -> None:
        """`job_events`: those of Jobs and CronJobs; may raise sqlite3.Error."""
        self._config = config
        self._job_events = job_events
        self._live = live
        self._recorder = recorder
        self._state = state
        self._started_at = time.time()
        self.desired: Desired | None = None
        self.image_archives: Callable[[], ImageArchivesStatus] = ImageArchivesStatus
        self._findings: tuple[str, ...] = ()
        self._runtime: RuntimeFacts | None = None

    def found(self, findings: tuple[Finding, ...]) -> None:
        """What there is to say of the runtime, as it is now; what is new goes to the log."""
        known, self._findings = self._findings, tuple(str(finding) for finding in findings)
        for finding in findings:
            if str(finding) not in known:
                log.warning(finding.problem, remedy=finding.remedy)

    def reached(self, runtime: RuntimeFacts) -> None:
        """The runtime can run pods."""
        self._runtime = runtime

    def parts(self) -> Parts:
        readyz = {"containerd": self._containerd, "manifests": self._manifests}
        return Parts(
            pods=self._live.encoded,
            events=self._events,
            status=self.status,
            livez={"ping": lambda: None},
            readyz=readyz,
        )

    async def _events(self) -> Iterable[bytes]:
        try:
            batch = await self._job_events()
        except sqlite3.Error as error:
            log.warning("the events of Jobs cannot be read", error=str(error))
            batch = []
        events = sorted([*self._recorder.events(), *batch], key=lambda event: event.last_at)
        return encoded_events(events, node=self._config.node)

    def status(self) -> Status:
        desired = self.desired or Desired()
        facts = self._runtime
        runtime = RuntimeStatus(
            endpoint=self._config.container_runtime_endpoint,
            connected=self._state.connected,
            name=facts.name if facts else "",
            version=facts.version if facts else "",
            api_version=facts.api_version if facts else "",
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
                objects=dict(Counter(key.kind for key in desired.objects)),
            ),
            pod_logs_dir=str(self._config.pod_logs_dir),
            image_archives=self.image_archives(),
            pods=dict(Counter(pod.status.phase if pod.status else "Pending" for pod in self._live.all())),
            findings=self._findings,
            not_ready={check: reason for check, reason in failing.items() if reason is not None},
        )

    def hindrance(self) -> str | None:
        """Why pods are not being run at this moment."""
        return self._containerd() or self._manifests()

    def _containerd(self) -> str | None:
        if self._runtime is None:
            return self._findings[0] if self._findings else "the container runtime has not been reached yet"
        if not self._state.connected:
            return "containerd is away; pods go on running and are taken care of when it is back"
        return None

    def _manifests(self) -> str | None:
        return None if self.desired is not None else "the manifests have not been read yet"


def _problems(by_file: Iterable[Iterable[ManifestError | ManifestNote]]) -> tuple[ManifestProblem, ...]:
    return tuple(
        ManifestProblem(file=it.file, line=it.line, document=it.document, path=it.path, message=it.message)
        for found in by_file
        for it in found
    )
