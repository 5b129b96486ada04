"""One worker per pod: observe, decide, publish, act, then sleep until woken or until the moment that `decide` named.

Nothing else touches a pod's containers. Slow things (a pull, a hook, a stop that waits for its grace) run as the
worker's own named tasks, so they never hold up its decisions. `manager.py` makes workers and tells them when their
manifest is gone or changed; `executor.py` carries out single actions; `probing.py` keeps the probes going.
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
from minikubelet.lifecycle.actions import (
    Action,
    CreateSandbox,
    Decision,
    RemoveContainer,
    RunPostStart,
    StartContainer,
)
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import PASSING, Memory, ProbeResult, StopCause
from minikubelet.lifecycle.notes import ProbeKind
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState, without
from minikubelet.pods.cleanup import clean_up_pod, release_pod
from minikubelet.pods.executor import Executor, Note
from minikubelet.pods.logs import logged_attempts
from minikubelet.pods.probing import Probing
from minikubelet.pods.refreshing import Refreshing
from minikubelet.pods.refusals import refusal_event
from minikubelet.pods.services import Services
from minikubelet.pods.shown import shown
from minikubelet.pods.starter import half_made
from minikubelet.pods.tasks import Abandoned, Handle
from minikubelet.pods.times import rfc3339, rfc3339_nano
from minikubelet.pods.volumes import VolumeError
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.store.database import StoredPod

log = structlog.get_logger(__name__)

_ABANDONABLE = CreateSandbox | StartContainer | RunPostStart
#: Seconds between tries of an action that the runtime refuses, doubling.
_RETRY_FIRST, _RETRY_MAX = 0.5, 10.0
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
        self._executor = Executor(services)
        self._wake = asyncio.Event()
        self._handles: dict[str, Handle] = {}
        self._discards: dict[str, asyncio.Task[None]] = {}
        self._retries: dict[str, float] = {}
        self._saved: tuple[Pod, Memory] | None = None
        self._refreshing = Refreshing(lambda: self.pod, services)
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
        refused = any(key.startswith("remove") and delay == _RETRY_MAX for key, delay in self._retries.items())
        return refused and self.removing and self.memory.stopped

    def wake(self) -> None:
        self._wake.set()

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
        self._abandon()
        self._save()
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
                for discard in self._discards.values():
                    discard.cancel()
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
            cut = half_made(observed, self.memory)
            left = [it for it in observed.containers if it.id in cut or _discard_of(it).key in self._discards]
            if removals := [self._discard(tasks, record) for record in left]:
                if not self._retries.keys() >= set(removals):
                    await self._wake.wait()  # for the first try of each
                    continue
                observed = without(observed, left)
                self.memory = notes.names_taken(self.memory, left)
            decision = self._decide(observed)
            probing.follow(self.pod, observed=observed, memory=self.memory)
            for action in decision.actions:
                self._start(tasks, action)
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
            self._abandon()
        self.memory = decision.memory
        for event in decision.events:
            self._services.recorder.event(self.pod, event)
        self._publish(decision.status)
        self._save()
        self.looked.set()
        return decision

    async def _sleep(self, wake_at: float | None) -> None:
        timeout = None if wake_at is None else min(max(wake_at - self._now(), 0.0), _LONGEST_SLEEP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()

    # ---- acting ------------------------------------------------------------------
    def _start(self, tasks: asyncio.TaskGroup, action: Action) -> None:
        handle = Handle(hindered=self._hindered)
        if isinstance(action, _ABANDONABLE):
            self._handles[action.key] = handle
        handle.bind(tasks.create_task(self._carry_out(action, handle), name=f"{self.pod.metadata.name} {action.key}"))

    async def _carry_out(self, action: Action, handle: Handle) -> None:
        note: Note | None = None
        try:
            note = await self._executor.carry_out(action, pod=self.pod, handle=handle)
            self._retries.pop(action.key, None)
        except Abandoned:
            self._log.info("abandoned, the pod is being stopped", action=action.key)
        except RuntimeUnavailableError:
            await self._look_again()
        except (ContainerRuntimeError, OSError) as error:
            await asyncio.sleep(self._refused(action, error))
        finally:
            self._handles.pop(action.key, None)
            memory = self.memory if note is None else note(self.memory)
            self.memory = notes.action_finished(memory, action.key)
            self.wake()

    async def _look_again(self) -> None:
        """A call's answer was lost: what became of it is only known when the runtime is back and was asked."""
        while True:
            await self._services.state.lost()
            try:
                await self._services.state.relist(self.uid)
            except ContainerRuntimeError as error:
                self._log.info("containerd does not answer yet", error=str(error))
            else:
                return

    def _abandon(self) -> None:
        for handle in self._handles.values():
            handle.abandon()

    def _discard(self, tasks: asyncio.TaskGroup, record: ObservedContainer) -> str:
        """Have what a start that was cut short has left removed, so that the decision never sees it; the removal's key.

        While the runtime refuses, it is hidden from the decision, and others go on without it.
        """
        action = _discard_of(record)

        async def discard() -> None:
            try:
                if not await self._came_through(record):
                    await self._carry_out(action, Handle())
            finally:
                del self._discards[action.key]
                self.wake()

        if action.key not in self._discards:
            name = f"{self.pod.metadata.name} discard {record.name}"
            self._discards[action.key] = tasks.create_task(discard(), name=name)
        return action.key

    async def _came_through(self, record: ObservedContainer) -> bool:
        """Whether a start that nobody waits for any more was done all the same: then the container is as any other.

        If not, it is written down that it never ran. So a daemon that dies while it is removed, which kills what has
        come to run meanwhile, leaves nothing that the next one takes for the container's own end.
        """
        state, key = self._services.state, _discard_of(record).key
        if record.id not in self.memory.half_made or key in self._retries:  # else a removal may be under way
            with contextlib.suppress(ContainerRuntimeError):
                await state.refresh(record.id)
            now = {it.id: it.state for it in state.observed(self.uid).containers}
            if now.get(record.id) is RecordState.RUNNING:
                self._retries.pop(key, None)
                self.memory = notes.came_through(self.memory, record.id)
                return True
        self.memory = notes.half_made(self.memory, record.id, observed=state.observed(self.uid))
        self._save()
        await self._services.store.settled()
        return False

    def _refused(self, action: Action, error: Exception) -> float:
        """The runtime does not do it. Says so, once it has for a while; the seconds until the next try."""
        before = self._retries.get(action.key, _RETRY_FIRST / 2)
        delay = self._retries[action.key] = min(before * 2, _RETRY_MAX)
        self._log.warning("the runtime refused; tried again later", action=action.key, error=str(error), seconds=delay)
        if delay == _RETRY_MAX > before and (event := refusal_event(action, error, half_made=self.memory.half_made)):
            self._services.recorder.event(self.pod, event)
        if self.yields:
            self._on_ended()
        self.wake()
        return delay

    def _probed(self, container_id: str, kind: ProbeKind, result: ProbeResult) -> None:
        self.memory = notes.probe_result(self.memory, container_id, kind=kind, result=result)
        self.wake()

    def _hindered(self, why: str) -> None:
        self.memory = notes.sandbox_hindered(self.memory, why)
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

    def _save(self) -> None:
        memory = msgspec.structs.replace(self.memory, in_flight=frozenset())
        if self._saved != (self.pod, memory):
            self._saved = (self.pod, memory)
            encode = msgspec.json.encode
            self._services.store.save_pod(StoredPod(self.uid, self.file, encode(self.pod), encode(memory)))

    def _now(self) -> float:
        return self._services.clock()


def _discard_of(record: ObservedContainer) -> RemoveContainer:
    return RemoveContainer(name=record.name, container_id=record.id, logs=False)


def stamped(pod: Pod, *, accepted_at: float) -> Pod:
    """The pod with the time at which it was first seen (IN-8), which its manifest does not have."""
    seen = rfc3339(accepted_at)
    metadata = msgspec.structs.replace(
        pod.metadata,
        creation_timestamp=seen,
        annotations={**pod.metadata.annotations, SEEN_ANNOTATION: rfc3339_nano(accepted_at)},
    )
    return msgspec.structs.replace(pod, metadata=metadata)
