"""One worker per pod: observe, decide, publish, act, then sleep until woken or until the moment that `decide` named.

Nothing else touches a pod's containers. Slow things (a pull, a hook, a stop that waits for its grace) run as the
worker's own named tasks, so they never hold up its decisions: those are in `acting.py`. `manager.py` makes workers and
tells them when their manifest is gone or changed; `probing.py` keeps the probes going.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection

import msgspec
import structlog

from minikubelet.api.identity import SEEN_ANNOTATION
from minikubelet.api.objects import Ref, pull_secrets_of, refs_of
from minikubelet.api.pod import Pod
from minikubelet.api.pod_images import images_of
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Decision
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import PASSING, Memory, ProbeResult, StopCause
from minikubelet.lifecycle.notes import ProbeKind
from minikubelet.lifecycle.records import Observed, without
from minikubelet.pods.acting import Acting
from minikubelet.pods.cleanup import clean_up_pod, release_pod
from minikubelet.pods.logs import logged_attempts
from minikubelet.pods.probing import Probing
from minikubelet.pods.refreshing import Refreshing
from minikubelet.pods.services import Services
from minikubelet.pods.shown import shown
from minikubelet.pods.times import rfc3339, rfc3339_nano
from minikubelet.pods.volumes import VolumeError
from minikubelet.store.database import StoredPod

log = structlog.get_logger(__name__)

#: The longest sleep with a moment in view: a clock that was set meanwhile is noticed after that.
_LONGEST_SLEEP = 30.0
#: Seconds until volumes that were busy are tried again.
_GIVE_BACK_RETRY = 5.0


class PodWorker:
    """Runs one pod until its manifest is gone and everything of it has been removed."""

    def __init__(
        self, pod: Pod, *, file: str, memory: Memory, services: Services, on_ended: Callable[[], None]
    ) -> None:
        """`on_ended` is called when the pod takes up nothing any more although it is still there: it has come to its
        end and is still wanted, or it yields its name.
        """
        self.pod = stamped(pod, accepted_at=memory.accepted_at)
        self.file = file
        self.memory = memory
        self._services = services
        self._on_ended = on_ended
        #: It has been decided about with a fresh look at the runtime, or is gone.
        self.looked = asyncio.Event()
        #: Nothing of it is left. Set by the manager, when all have heard of it.
        self.gone = asyncio.Event()
        self._acting = Acting(self, services)
        self._wake = asyncio.Event()
        self._saved: tuple[Pod, Memory] | None = None
        self._refreshing = Refreshing(lambda: self.pod, services, stopping=lambda: self.memory.stopping is not None)
        self._log = log.bind(pod=f"{pod.metadata.namespace}/{pod.metadata.name}", uid=self.uid)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def removing(self) -> bool:
        stopping = self.memory.stopping
        return stopping is not None and stopping.cause is StopCause.REMOVED

    @property
    def yields(self) -> bool:
        """Nothing of it runs, and the runtime refuses to remove what is left: another pod may have its name."""
        return self.removing and self.memory.stopped and self._acting.removal_refused

    def wake(self) -> None:
        self._wake.set()

    def refused(self) -> None:
        """The runtime does not do something that was decided; it is tried again."""
        if self.yields:
            self._on_ended()
        self.wake()

    def update(self, pod: Pod, *, file: str) -> None:
        """Take over an edited manifest of the same uid (LC 12.5)."""
        pod = stamped(pod, accepted_at=self.memory.accepted_at)
        if (pod, file) != (self.pod, self.file):
            self.pod, self.file = pod, file
            self._refreshing.poke()
            self.wake()

    def remove(self, *, grace: int | None = None) -> None:
        """End the pod in order; `run` returns when nothing of it is left.

        `grace`: seconds that this may take at most, from now on.
        """
        if not self.removing:
            self._log.info("pod is being removed", file=self.file)
        if not self.removing or grace is not None:
            self._stop(StopCause.REMOVED, grace)

    def end(self, *, grace: int | None = None) -> None:
        """End the pod in order; its status, records and logs stay. `grace` as for `remove`."""
        if self.memory.stopping is None or self.memory.stopping.cause in PASSING:
            self._log.info("pod is being ended")
            self._stop(StopCause.ENDED, grace)
        elif grace is not None and not self.memory.stopped:
            self._stop(StopCause.ENDED, grace)

    def _stop(self, cause: StopCause, grace: int | None) -> None:
        """Begin the pod-wide stop, or have the one under way go on so. It is written down at once."""
        self.memory = notes.request_stop(self.memory, pod=self.pod, cause=cause, now=self._now(), grace=grace)
        self._acting.abandon()
        self.save()
        self.wake()

    async def run(self) -> None:
        """Until the pod has been removed. A cancellation leaves its containers as they are."""
        async with asyncio.TaskGroup() as tasks:
            probing = Probing(tasks, services=self._services, on_result=self._probed)
            files = tasks.create_task(self._refreshing.run(), name=f"{self.pod.metadata.name} volumes' files")
            try:
                with (
                    self._services.objects.subscribed(self._objects_changed),
                    self._services.image_news.subscribed(self._images_arrived),
                ):
                    await self._live(tasks, probing)
            finally:
                files.cancel()
                self._acting.stop()
                probing.stop()
                self.looked.set()

    async def _live(self, tasks: asyncio.TaskGroup, probing: Probing) -> None:
        state = self._services.state
        released = False
        if not self.memory.stopped:
            self._services.cgroups.adopt(self.pod)
        if self.memory.status is None:
            self.memory = notes.attempts_known(self.memory, await logged_attempts(self.pod, self._services.node))
        while True:
            self._wake.clear()
            self._publish(self.memory.status)
            await state.wait_connected()
            observed = state.observed(self.uid)
            if left := self._acting.discard(tasks, observed):
                if not self._acting.tried_to_discard(left):
                    await self._wake.wait()  # for the first try of each
                    continue
                observed = without(observed, left)
                self.memory = notes.names_taken(self.memory, left)
            decision = self._decide(observed)
            probing.follow(self.pod, observed=observed, memory=self.memory)
            for action in decision.actions:
                self._acting.start(tasks, action)
            wake_at = decision.wake_at
            removing = self.removing  # as decided: a removal that is asked for meanwhile is the next decision's
            if decision.finished and (removing or not released):
                released = await self._give_back(removing=removing)
                if released and removing:
                    break
                if released:
                    self._on_ended()
                wake_at = wake_at if released else self._now() + _GIVE_BACK_RETRY
            await self._sleep(wake_at)

    async def _give_back(self, *, removing: bool) -> bool:
        """Nothing runs any more: volumes and the cgroup go, and the rest if the pod goes. False: try again later."""
        give_back = clean_up_pod if removing else release_pod
        try:
            await give_back(self.pod, self._services)
        except (VolumeError, OSError) as error:
            self._log.warning("something of the pod is still in use", error=str(error), seconds=_GIVE_BACK_RETRY)
            return False
        return True

    def _decide(self, observed: Observed) -> Decision:
        was_stopping = self.memory.stopping is not None
        decision = decide(self.pod, observed, self.memory, self._now(), crash_backoff=self._services.crash_backoff)
        if decision.memory.stopping is not None and not was_stopping:
            self._acting.abandon()
        self.memory = decision.memory
        for event in decision.events:
            self._services.recorder.event(self.pod, event)
        self._publish(decision.status)
        self.save()
        self.looked.set()
        return decision

    async def _sleep(self, wake_at: float | None) -> None:
        timeout = None if wake_at is None else min(max(wake_at - self._now(), 0.0), _LONGEST_SLEEP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()

    # ---- what comes in -----------------------------------------------------------
    def _probed(self, container_id: str, kind: ProbeKind, result: ProbeResult) -> None:
        self.memory = notes.probe_result(self.memory, container_id, kind=kind, result=result)
        self.wake()

    def _objects_changed(self, changed: frozenset[Ref]) -> None:
        if changed and not changed & refs_of(self.pod):
            return
        self._refreshing.poke()
        if changed:
            pulls = not changed.isdisjoint(pull_secrets_of(self.pod))
            self.memory = notes.retry_configuration(self.memory, now=self._now(), pulls=pulls)
            self.wake()

    def _images_arrived(self, names: Collection[str]) -> None:
        if not images_of(self.pod.spec).isdisjoint(names):
            self.memory = notes.retry_images(self.memory, now=self._now())
            self.wake()

    # ---- telling ------------------------------------------------------------------
    def _publish(self, status: PodStatus | None) -> None:
        node = self._services.node
        handler = node.runtime_classes.get(self.pod.spec.runtime_class_name or "", "")
        pod = shown(
            self.pod,
            self.memory,
            status=status,
            node_ip=node.node_ip,
            recursive_read_only=handler in node.recursive_read_only,
        )
        self._services.live.put(pod)

    def save(self) -> None:
        """Have what changed since the last time written down, within moments."""
        memory = msgspec.structs.replace(self.memory, in_flight=frozenset())
        if self._saved != (self.pod, memory):
            self._saved = (self.pod, memory)
            encode = msgspec.json.encode
            self._services.store.save_pod(StoredPod(self.uid, self.file, encode(self.pod), encode(memory)))

    def _now(self) -> float:
        return self._services.clock()


def stamped(pod: Pod, *, accepted_at: float) -> Pod:
    """The pod with the time at which it was first seen (IN-8), which its manifest does not have."""
    seen = rfc3339(accepted_at)
    metadata = msgspec.structs.replace(
        pod.metadata,
        creation_timestamp=seen,
        annotations={**pod.metadata.annotations, SEEN_ANNOTATION: rfc3339_nano(accepted_at)},
    )
    return msgspec.structs.replace(pod, metadata=metadata)
