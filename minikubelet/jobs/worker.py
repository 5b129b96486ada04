"""One worker per Job: see, decide, commit, act, then sleep until woken or until the moment that `decide` named.

Everything that changes the Job's books passes through its worker, one transaction after the other; it acts only on what
has been committed, so a daemon that is killed at any instant goes on where the books are (JOBS 12). `controller` makes
workers and tells them of their manifest; pods are run by a `PodRunner`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import uuid
from collections.abc import Callable, Iterable

import structlog
from msgspec.structs import replace

from minikubelet.api.batch import Job
from minikubelet.api.status import PodStatus
from minikubelet.jobs import changes
from minikubelet.jobs.adjust import NewPod
from minikubelet.jobs.changes import Change
from minikubelet.jobs.counting import ended
from minikubelet.jobs.decide import decide
from minikubelet.jobs.pods import new_record, pod_name
from minikubelet.jobs.services import JobServices
from minikubelet.jobs.supervision import RETRY
from minikubelet.lifecycle.actions import Event
from minikubelet.store import jobs as books
from minikubelet.store.job_records import JobRecord, JobState, Mark, PodRecord
from minikubelet.store.jobs import PodChange, StaleError

log = structlog.get_logger(__name__)

#: The longest sleep with a moment in view: a clock that was set meanwhile is noticed after that.
_LONGEST_SLEEP = 30.0

#: What somebody asks of the Job: a function of its record and pods as they are when its turn comes.
Request = Callable[[JobRecord, dict[str, PodRecord]], Change | None]


class JobWorker:
    """Runs one Job until nothing of it is left but its rows; whoever awaits `run` deletes those."""

    def __init__(self, record: JobRecord, pods: Iterable[PodRecord], services: JobServices) -> None:
        self.record = record
        self.pods = {pod.uid: pod for pod in pods}
        self._services = services
        #: What it was last told, or what the books say of its manifest.
        self._manifest: tuple[Job | None, str] = (record.job, record.file)
        #: Set when it runs no more, and who comes after it stands in its place: nothing can be asked of it any longer.
        self.over = asyncio.Event()
        self._wake = asyncio.Event()
        self._requests: list[Request] = []
        self._open = _unsettled(self.pods)
        self._seen = {uid for uid, pod in self.pods.items() if not pod.gone}
        self._log = log.bind(job=f"{record.namespace}/{record.name}", uid=record.uid)
        services.pod_names.update((pod.namespace, pod.name) for pod in self.pods.values())
        services.tell.update(dict.fromkeys(self.pods, self.pod_changed))

    # ---- what others ask -----------------------------------------------------------
    def wake(self) -> None:
        self._wake.set()

    def pod_changed(self, uid: str) -> None:
        """Something about one of its pods is different now."""
        self._seen.add(uid)
        self._wake.set()

    def ask(self, request: Request) -> None:
        """Have something changed when its turn comes."""
        self._requests.append(request)
        self._wake.set()

    def follow(self, wanted: Job | None, *, file: str) -> None:
        """The manifest as it is now; None: it is gone."""
        if self._manifest == (wanted, file):
            return
        self._manifest = (wanted, file)
        self.ask(
            lambda job, pods: changes.follow_manifest(job, pods.values(), wanted, file=file, now=self._services.clock())
        )

    def remove(self) -> None:
        """The Job goes, by its CronJob's will."""
        self.follow(None, file="")

    def delete_pod(self, uid: str, *, mark: Mark) -> None:
        """End one pod from outside: the Job replaces it by its rules."""
        self.ask(
            lambda job, pods: (
                changes.delete_pod(job, pods[uid], mark=mark, now=self._services.clock()) if uid in pods else None
            )
        )

    def claim_pods(self) -> None:
        """Have the runner go on with the Job's pods. To be called before the runner ends what nobody claims.

        One that has ended, or is to end, must not begin anew if nothing is left of it.
        """
        for pod in self._pods_left():
            if pod.pod is not None:
                runs = pod.mark is None and not pod.phase
                claim = self._services.runner.start if runs else self._services.runner.keep
                claim(pod.pod)

    async def reload(self) -> None:
        """Begin again with what the books say."""
        loaded = await self._services.transact(books.load)
        self.record = next(job for job in loaded.jobs if job.uid == self.record.uid)
        self.pods = {pod.uid: pod for pod in loaded.pods if pod.job_uid == self.record.uid}
        self._open = _unsettled(self.pods)
        self._seen = {uid for uid, pod in self.pods.items() if not pod.gone}

    def forget(self) -> None:
        """Its rows are gone."""
        for pod in self.pods.values():
            self._services.pod_names.discard((pod.namespace, pod.name))
            self._services.tell.pop(pod.uid, None)

    # ---- the loop ----------------------------------------------------------------
    async def run(self) -> None:
        """Until the Job has been removed, replaced or has expired, and none of its pods is left."""
        self.claim_pods()
        for uid in list(self._open):
            await self._services.runner.observed(uid)
        while True:
            self._wake.clear()
            try:
                wake_at = await self._settle()
            except StaleError as error:
                self._log.warning("the books were not as expected; they are read again", error=str(error))
                await self.reload()
                continue
            except sqlite3.Error as error:
                self._log.warning("the books cannot be written; the Job waits", error=str(error), seconds=RETRY)
                await asyncio.sleep(RETRY)
                continue
            self._services.show(self.record)
            if self.record.state is not JobState.CURRENT and not self._pods_left():
                return
            await self._sleep(wake_at)

    async def _settle(self) -> float | None:
        """Take in what is new, decide and commit until nothing changes, acting on what is committed."""
        while True:
            await self._look()
            while self._requests:
                change = self._requests[0](self.record, self.pods)
                if change is not None:
                    await self._commit(change)
                self._requests.pop(0)
            now = self._services.clock()
            expiry = changes.expiry(self.record)
            if expiry is not None and now >= expiry:
                self._log.info("its time to live after finishing is over")
                await self._commit(changes.end(self.record, self.pods.values(), JobState.EXPIRED, now=now))
            decision = decide(
                self.record,
                [self.pods[uid] for uid in self._open],
                now=now,
                settings=self._services.settings,
            )
            if decision.changed:
                created = [self._new_pod(new, now) for new in decision.create]
                made = tuple(_created(pod) for pod in created)
                change = Change(job=decision.job, pods=decision.pods, events=(*decision.events, *made))
                await self._commit(change, created=created)
            self._act()
            if not decision.changed and not self._requests and not self._seen:
                moments = [at for at in (decision.wake_at, changes.expiry(self.record)) if at is not None]
                return min(moments, default=None)

    async def _look(self) -> None:
        """See how the pods are that changed. One that disappeared is written down as gone."""
        seen, self._seen = self._seen, set()
        gone = []
        for uid in seen:
            pod = self.pods.get(uid)
            if pod is None or pod.gone:
                continue
            now = self._services.runner.seen(uid)
            if now is not None:
                self.pods[uid] = replace(pod, status=now.status, finish_times=dict(now.finish_times))
            else:
                gone.append(self._gone(pod))
        if gone:
            try:
                await self._commit(Change(job=self.record, pods=tuple(gone)))
            except BaseException:
                self._seen |= seen
                raise

    def _gone(self, pod: PodRecord) -> PodRecord:
        """A pod of which nothing is left. Without an outcome and an end of its own it has failed."""
        phase = pod.status.phase if pod.status.phase == "Succeeded" else "Failed"
        return ended(replace(pod, gone=True, status=replace(pod.status or PodStatus(), phase=phase)))

    def _new_pod(self, new: NewPod, now: float) -> PodRecord:
        """Its record, with a name that no pod of the namespace has had (JOBS 3)."""
        services = self._services
        while True:
            name = pod_name(self.record.name, new.index, draw=services.draw)
            if (self.record.namespace, name) not in services.pod_names:
                break
        services.pod_names.add((self.record.namespace, name))
        return new_record(self.record, new, name=name, uid=str(uuid.uuid4()), node_name=services.node_name, now=now)

    async def _commit(self, change: Change, *, created: Iterable[PodRecord] = ()) -> None:
        """Write one transaction; then it is so."""
        before, now = self.record, self._services.clock()
        pods = [PodChange(self.pods[pod.uid], pod) for pod in change.pods]
        pods += [PodChange(None, pod) for pod in created]
        await self._services.transact(
            lambda connection: books.write_job(
                connection, before=before, after=change.job, pods=pods, events=change.events, now=now
            )
        )
        self.record = change.job
        self._services.show(self.record)
        for _, pod in pods:
            self.pods[pod.uid] = pod
            if _settled(pod):
                self._open.pop(pod.uid, None)
            else:
                self._open[pod.uid] = None
            self._services.tell[pod.uid] = self.pod_changed
        for event in change.events:
            self._log.info(event.message, reason=event.reason)

    def _act(self) -> None:
        """Make it so: start what is to run, end what is marked. All of it may be repeated."""
        runner = self._services.runner
        for uid in list(self._open):
            pod = self.pods[uid]
            if pod.mark is None:
                if not pod.ended and pod.pod is not None:
                    runner.start(pod.pod)
            elif pod.outcome is not None:
                runner.remove(uid)
            elif not pod.ended:
                runner.stop(uid)

    def _pods_left(self) -> list[PodRecord]:
        return [pod for pod in self.pods.values() if not pod.gone]

    async def _sleep(self, wake_at: float | None) -> None:
        timeout = None if wake_at is None else min(max(wake_at - self._services.clock(), 0.0), _LONGEST_SLEEP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()


def _created(pod: PodRecord) -> Event:
    return Event(type="Normal", reason="SuccessfulCreate", message=f"Created pod: {pod.name}")


def _unsettled(pods: dict[str, PodRecord]) -> dict[str, None]:
    """Uids in order."""
    return {uid: None for uid, pod in pods.items() if not _settled(pod)}


def _settled(pod: PodRecord) -> bool:
    """Nothing can happen to the pod any more by itself: it is gone, or counted, ended and not marked."""
    return pod.gone or (pod.mark is None and pod.outcome is not None and bool(pod.phase))
