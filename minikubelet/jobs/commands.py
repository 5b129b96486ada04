"""What people can have done to Jobs: run a CronJob now, suspend, resume, run again, delete one, delete one of its pods.

The daemon's operations call these. Each returns when what it did is in the books, so that nothing that was answered is
lost with the daemon; what follows from it (pods that end and begin) goes on by itself. All raise RefusedError.
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from minikubelet.api.batch import Job, managed_here
from minikubelet.api.labels import INSTANTIATE, MANUAL
from minikubelet.api.refusals import RefusedError
from minikubelet.api.validation.jobs import validate_job
from minikubelet.jobs import changes
from minikubelet.jobs.changes import Change
from minikubelet.jobs.controller import JobController
from minikubelet.jobs.cron import job_from_template
from minikubelet.jobs.pods import pod_name
from minikubelet.jobs.roster import Key
from minikubelet.jobs.worker import JobWorker, Request
from minikubelet.lifecycle.actions import Event
from minikubelet.store import jobs as books
from minikubelet.store.job_records import CronRecord, JobRecord, JobState, Mark, PodRecord

log = structlog.get_logger(__name__)

#: Seconds that a command waits for a daemon that has just begun.
_PATIENCE = 10.0
#: Seconds until it says that what it was told has to wait.
_ANSWER = 30.0

T = TypeVar("T")


class JobCommands:
    def __init__(self, controller: JobController, *, hindrance: Callable[[], str | None] = lambda: None) -> None:
        """`hindrance`: why pods are not being run, for people."""
        self._controller = controller
        self._roster = controller.roster
        self._services = controller.services
        self._hindrance = hindrance

    async def ready(self) -> None:
        """Until Jobs and pods are being run. Raises RefusedError if that takes too long."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._controller.serving.wait()
        except TimeoutError:
            why = self._hindrance() or "the daemon has just begun"
            raise RefusedError("ServiceUnavailable", f"no pods are being run: {why}; nothing was done") from None

    # ---- Jobs --------------------------------------------------------------------
    async def run_from(self, cron: Key, *, name: str | None = None) -> Job:
        """A Job of a CronJob's template, as `kubectl create job --from` makes it. Without a name one is made up."""
        await self.ready()
        async with self._controller.turn:
            worker = self._roster.crons.get(cron)
            if worker is None or worker.record.removed:
                raise _not_found("cronjobs.batch", cron.name)
            record = worker.record
            key = Key(cron.namespace, name or self._free_name(record))
            if self._is_taken(key):
                raise RefusedError("AlreadyExists", f'jobs.batch "{key.name}" already exists')
            now = self._services.clock()
            job = job_from_template(
                record,
                name=key.name,
                annotations={INSTANTIATE: MANUAL},
                uid=str(uuid.uuid4()),
                now=now,
                block_owner_deletion=None,
            )
            if problems := validate_job(job.job, sidecar_containers=True):
                said = "; ".join(f"{each.path}: {each.message}" for each in problems)
                raise RefusedError("Invalid", f'Job "{key.name}" is invalid: {said}')
            created = Event(type="Normal", reason="SuccessfulCreate", message=f"Created job {key.name}")

            def write(connection: sqlite3.Connection) -> None:
                books.insert_job(connection, job)
                books.add_events(connection, record.uid, [created], now=now)

            await _written(self._services.transact(write))
            log.info("a Job is run by command", job=f"{key.namespace}/{key.name}", cronjob=record.name, uid=job.uid)
            self._roster.begin_child(job)
            return job.job

    def _free_name(self, cron: CronRecord) -> str:
        while self._is_taken(Key(cron.namespace, name := pod_name(cron.name, None, draw=self._services.draw))):
            pass
        return name

    def _is_taken(self, key: Key) -> bool:
        return self._roster.is_taken(*key) or key in self._controller.wanted_jobs

    async def suspend(self, key: Key, *, suspended: bool) -> bool:
        """Says whether that changed anything. It holds until the word of the file on it changes."""

        def request(job: JobRecord) -> Change | None:
            _must_run(job)
            return changes.suspend(job, suspended=suspended)

        return await self._have(key, lambda job, _: request(job))

    async def restart(self, key: Key) -> str:
        """Another run when nothing of this one is left, also of a Job that has expired. Returns the uid of this one."""
        await self.ready()

        def request(job: JobRecord, pods: dict[str, PodRecord]) -> Change | None:
            _must_be_ours(job)
            return changes.restart(job, pods.values(), now=self._services.clock())

        while (expired := self._roster.tombstones.get(key)) is None:
            worker = self._worker(key)
            uid = worker.record.uid
            if await self._asked(worker, request) is not None:
                return uid
        async with self._controller.turn:
            wanted = self._controller.wanted_jobs.get(key)
            if wanted is None or self._roster.tombstones.get(key) is not expired:
                raise RefusedError("Conflict", f"job {key.name} is just being changed; try again")
            await _written(self._controller.accept(key, wanted, after=expired))
            del self._roster.tombstones[key]
        return expired.uid

    async def delete(self, key: Key) -> str:
        """Remove a Job that no file asks for, with its pods and their logs. Returns its uid."""

        def request(job: JobRecord, pods: dict[str, PodRecord]) -> Change | None:
            if not job.owner:
                text = f"job {key.name} is asked for by {job.file}: remove the file, or run it again with restart"
                raise RefusedError("Conflict", text)
            if job.state is JobState.REMOVED:
                return None
            return changes.end(job, pods.values(), JobState.REMOVED, now=self._services.clock())

        await self.ready()
        uid = self._worker(key).record.uid
        await self._have(key, request)
        return uid

    async def replaced(self, key: Key, uid: str) -> None:
        """Until the run with this uid is no more."""
        changed = asyncio.Event()
        unsubscribe = self._roster.subscribe(changed.set)
        try:
            while (worker := self._roster.jobs.get(key)) is not None and worker.record.uid == uid:
                changed.clear()
                await changed.wait()
        finally:
            unsubscribe()

    # ---- pods --------------------------------------------------------------------
    async def delete_pod(self, uid: str) -> bool:
        """Have the Job of this pod end it, and replace it by its rules; False: it is no Job's pod (row 36)."""
        await self.ready()
        worker = next((worker for worker in self._roster.jobs.values() if uid in worker.pods), None)
        if worker is None:
            return False

        def request(job: JobRecord, pods: dict[str, PodRecord]) -> Change | None:
            return changes.delete_pod(job, pods[uid], mark=Mark.OPERATOR, now=self._services.clock())

        await self._asked(worker, request)  # (if the whole Job went meanwhile, so did the pod)
        return True

    # ---- how -----------------------------------------------------------------------
    def _worker(self, key: Key) -> JobWorker:
        worker = self._roster.jobs.get(key)
        if worker is None:
            raise _not_found("jobs.batch", key.name)
        return worker

    async def _have(self, key: Key, request: Request) -> bool:
        """Have something changed by the Job's worker; returns, when it is in the books, whether there was a change."""
        await self.ready()
        while (changed := await self._asked(self._worker(key), request)) is None:
            pass
        return changed

    async def _asked(self, worker: JobWorker, request: Request) -> bool | None:
        """The same; None: the worker has come to its end before, and another one or none is in its place."""
        asked = _Asked(request)
        worker.ask(asked.change)
        worker.ask(asked.committed)
        over = asyncio.ensure_future(worker.over.wait())
        try:
            async with asyncio.timeout(_ANSWER):
                await asyncio.wait((asked.answer, over), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            text = "it is asked for, but not done yet; it will be, unless the daemon ends before"
            why = self._hindrance()
            raise RefusedError("Timeout", f"{text}: {why}" if why else text) from None
        finally:
            over.cancel()
        return asked.answer.result() if asked.answer.done() else None


class _Asked:
    """A request with an answer: what is asked right after it has its turn when its change is committed."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._changed = False
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def change(self, job: JobRecord, pods: dict[str, PodRecord]) -> Change | None:
        try:
            change = self._request(job, pods)
        except RefusedError as refused:
            if not self.answer.done():
                self.answer.set_exception(refused)
            return None
        self._changed = change is not None
        return change

    def committed(self, _job: JobRecord, _pods: dict[str, PodRecord]) -> None:
        if not self.answer.done():
            self.answer.set_result(self._changed)


async def _written(work: Awaitable[T]) -> T:
    try:
        return await work
    except sqlite3.Error as error:
        raise RefusedError(
            "InternalError", f"the daemon's state cannot be written: {error}; nothing was done"
        ) from error


def _must_be_ours(job: JobRecord) -> None:
    if not managed_here(job.job.spec):
        raise RefusedError("Conflict", f"job {job.name} is run by {job.job.spec.managed_by}, not here (spec.managedBy)")
    if job.state is JobState.REMOVED:
        raise RefusedError("Conflict", f"job {job.name} is being removed")


def _must_run(job: JobRecord) -> None:
    _must_be_ours(job)
    if job.finished is not None:
        raise RefusedError("Conflict", f"job {job.name} has ended ({job.finished.type}); restart runs it again")
    if job.state is not JobState.CURRENT:
        raise RefusedError("Conflict", f"job {job.name} is ending, to begin anew; try again when it has")


def _not_found(kind: str, name: str) -> RefusedError:
    return RefusedError("NotFound", f'{kind} "{name}" not found')
