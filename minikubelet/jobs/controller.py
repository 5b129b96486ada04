"""Makes the Jobs and CronJobs that run match those that are wanted: begins, edits, replaces and removes them (JOBS 13).

The daemon calls `load` before anything else lets the pods' room reconcile, `apply` with each new desired set, and
`serve`. A key (namespace and name) has one run in the books at a time: an edit of immutable fields ends the old one,
and only when nothing of it is left does one transaction put the next generation in its place. Who there is stands in
the `roster`; what people command is in `commands`.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import tzinfo
from typing import Any

import structlog
from msgspec.structs import replace

from minikubelet.api.zones import local_zone as host_zone
from minikubelet.jobs.backoff import Settings
from minikubelet.jobs.cron_worker import CronWorker
from minikubelet.jobs.edits import Edit, judge_edit, kept_suspend
from minikubelet.jobs.roster import Key, Manifest, Roster, key_of
from minikubelet.jobs.runner import PodRunner
from minikubelet.jobs.services import JobServices, Transact
from minikubelet.jobs.supervision import supervised, until_written
from minikubelet.jobs.worker import JobWorker
from minikubelet.store import jobs as books
from minikubelet.store.job_records import CronRecord, JobRecord, JobState, PodRecord

log = structlog.get_logger(__name__)


class JobController:
    def __init__(
        self,
        *,
        transact: Transact,
        runner: PodRunner,
        node_name: str,
        settings: Settings | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[str], str] = secrets.choice,
        local_zone: tzinfo | None = None,
    ) -> None:
        self.roster = Roster(lambda job: self._begin(self._add(job)))
        self.services = JobServices(
            transact=transact,
            runner=runner,
            show=self.roster.job_changed,
            clock=clock,
            draw=draw,
            node_name=node_name,
            settings=settings or Settings(),
        )
        self._local_zone = local_zone or host_zone()
        self.wanted_jobs: dict[Key, Manifest] = {}
        self._wanted_crons: dict[Key, Manifest] = {}
        self._wake = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._running: set[asyncio.Task[None]] = set()
        #: Held by whoever begins a Job from outside, so that a name is given once.
        self.turn = asyncio.Lock()
        #: Jobs are being run.
        self.serving = asyncio.Event()

    # ---- the daemon's side -----------------------------------------------------------
    async def load(self) -> list[Manifest]:
        """Take up what the books say, and claim the pods of Jobs, so that nobody ends them as unknown.

        Returns the manifests that were in force when the daemon ended.
        """
        found = await self.services.transact(books.load)
        for text in found.unreadable:
            log.error("a row of the Jobs' books cannot be read; it is left out", row=text)
        pods: dict[str, list[PodRecord]] = {}
        for pod in found.pods:
            pods.setdefault(pod.job_uid, []).append(pod)
        for job in found.jobs:
            if job.state is JobState.TOMBSTONE:
                self.roster.tombstones[key_of(job)] = job
                continue
            own = pods.get(job.uid, [])
            worker = self.roster.jobs[key_of(job)] = JobWorker(await self._checked(job, own), own, self.services)
            worker.claim_pods()
        for cron in found.crons:
            self.roster.crons[key_of(cron)] = self._cron_worker(cron)
        staying = (JobState.CURRENT, JobState.EXPIRED, JobState.TOMBSTONE)
        jobs = [Manifest(job.job, job.file) for job in found.jobs if not job.owner and job.state in staying]
        return jobs + [Manifest(cron.cron, cron.file) for cron in found.crons if not cron.removed]

    def apply(self, *, jobs: Mapping[Key, Manifest], crons: Mapping[Key, Manifest]) -> None:
        """Make these the wanted ones."""
        self.wanted_jobs, self._wanted_crons = dict(jobs), dict(crons)
        self._wake.set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Run Jobs; `apply` must have been called. On leaving, everything stays as it is."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            unsubscribe = self.services.runner.subscribe(self._pod_changed)
            for worker in self.roster.jobs.values():
                self._begin(worker)
            for cron_worker in self.roster.crons.values():
                self._begin_cron(cron_worker)
            self._spawn(self._reconcile_forever(), "follow the wanted Jobs")
            self.serving.set()
            try:
                yield
            finally:
                self.serving.clear()
                unsubscribe()
                self._tasks = None
                for task in self._running:
                    task.cancel()

    # ---- the folder ------------------------------------------------------------------
    async def _reconcile_forever(self) -> None:
        while True:
            self._wake.clear()
            async with self.turn:
                await until_written(self._reconcile)
            await self._wake.wait()

    async def _reconcile(self) -> None:
        for key in [*self.roster.jobs]:
            worker = self.roster.jobs[key]
            if not worker.record.owner:
                wanted = self.wanted_jobs.get(key)
                worker.follow(wanted.object if wanted else None, file=wanted.file if wanted else "")
        for key, record in [*self.roster.tombstones.items()]:
            await self._follow_tombstone(key, record)
        for key, wanted in [*self.wanted_jobs.items()]:
            if key not in self.roster.jobs and key not in self.roster.tombstones:
                await self.accept(key, wanted)
            elif key in self.roster.jobs and self.roster.jobs[key].record.owner:
                log.warning("a CronJob's Job has this name; the manifest waits until it is gone", job=key.name)
        for key, cron_worker in self.roster.crons.items():
            cron = self._wanted_crons.get(key)
            cron_worker.follow(cron.object if cron else None, file=cron.file if cron else "")
        for key, wanted in [*self._wanted_crons.items()]:
            if key not in self.roster.crons:
                await self._accept_cron(key, wanted)

    async def accept(self, key: Key, wanted: Manifest, *, after: JobRecord | None = None) -> None:
        """A new run of a Job; `after`: in place of the one that is gone, in one transaction."""
        generation = 1 if after is None or after.state is JobState.REMOVED else after.generation + 1
        job = JobRecord(
            uid=str(uuid.uuid4()),
            job=wanted.object,
            created_at=self.services.clock(),
            file=wanted.file,
            owner="" if after is None else after.owner,
            generation=generation,
            suspend=None if after is None else kept_suspend(after, wanted.object),
        )

        def write(connection: sqlite3.Connection) -> None:
            if after is not None:
                books.delete_job(connection, after.uid)
            books.insert_job(connection, job)

        await self.services.transact(write)
        log.info("a Job is taken up", job=f"{key.namespace}/{key.name}", uid=job.uid, generation=generation)
        self._begin(self._add(job))

    async def _follow_tombstone(self, key: Key, record: JobRecord) -> None:
        """What expired runs again only for new immutable content."""
        wanted = self.wanted_jobs.get(key)
        if wanted is not None and judge_edit(record, wanted.object, active=0) is Edit.REPLACES:
            del self.roster.tombstones[key]
            await self.accept(key, wanted, after=record)
        elif wanted is None:
            await self.services.transact(lambda connection: books.delete_job(connection, record.uid))
            del self.roster.tombstones[key]

    async def _accept_cron(self, key: Key, wanted: Manifest) -> None:
        now = self.services.clock()
        cron = CronRecord(uid=str(uuid.uuid4()), cron=wanted.object, created_at=now, reference_at=now, file=wanted.file)
        await self.services.transact(lambda connection: books.write_cron(connection, cron))
        log.info("a CronJob is taken up", cronjob=f"{key.namespace}/{key.name}", uid=cron.uid)
        worker = self.roster.crons[key] = self._cron_worker(cron)
        self._begin_cron(worker)

    # ---- workers ---------------------------------------------------------------------
    def _add(self, job: JobRecord) -> JobWorker:
        worker = self.roster.jobs[key_of(job)] = JobWorker(job, (), self.services)
        return worker

    def _cron_worker(self, cron: CronRecord) -> CronWorker:
        return CronWorker(cron, self.services, self.roster, local_zone=self._local_zone)

    def _begin(self, worker: JobWorker) -> None:
        self._spawn(self._run_job(worker), f"job {worker.record.namespace}/{worker.record.name}")

    def _begin_cron(self, worker: CronWorker) -> None:
        self._spawn(self._run_cron(worker), f"cronjob {worker.record.namespace}/{worker.record.name}")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        if self._tasks is None:
            work.close()
            return
        task = self._tasks.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_job(self, worker: JobWorker) -> None:
        await supervised(worker.run, again=worker.reload, name=worker.record.name)
        await until_written(lambda: self._bury(worker))
        worker.over.set()
        self.roster.changed()
        self._wake.set()

    async def _bury(self, worker: JobWorker) -> None:
        """Nothing is left of a Job but its rows: they go, or make place for the next one."""
        job, key = worker.record, key_of(worker.record)
        wanted = self.wanted_jobs.get(key) if not job.owner else None
        if job.state is JobState.REPLACED and job.owner:
            wanted = Manifest(job.job, "")
        expired = job.state is JobState.EXPIRED
        worker.forget()
        if wanted is None:
            await self.services.transact(lambda connection: books.delete_job(connection, job.uid))
            del self.roster.jobs[key]
        elif expired and judge_edit(job, wanted.object, active=0) is not Edit.REPLACES:
            await self.services.transact(lambda connection: books.leave_tombstone(connection, job))
            del self.roster.jobs[key]
            self.roster.tombstones[key] = replace(job, state=JobState.TOMBSTONE)
        else:
            await self.accept(key, wanted, after=job)
        self.roster.wake_cron(job.owner)

    async def _run_cron(self, worker: CronWorker) -> None:
        await supervised(worker.run, again=worker.reload, name=worker.record.name)
        uid = worker.record.uid
        await until_written(lambda: self.services.transact(lambda connection: books.delete_cron(connection, uid)))
        del self.roster.crons[key_of(worker.record)]
        self.roster.changed()
        self._wake.set()

    async def _checked(self, job: JobRecord, pods: list[PodRecord]) -> JobRecord:
        """The record with right counters (R3)."""
        right = books.checked(job, pods)
        if right != job:
            log.error("a Job's counters were not those of its pods; they were corrected", job=job.name, uid=job.uid)
            now = self.services.clock()
            await self.services.transact(lambda c: books.write_job(c, before=job, after=right, now=now))
        return right

    # ---- what happens ----------------------------------------------------------------
    def _pod_changed(self, uid: str) -> None:
        tell = self.services.tell.get(uid)
        if tell is not None:
            tell(uid)
