"""One worker per CronJob: decide, commit, have Jobs begun and removed, sleep until the next moment (JOBS 14)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import uuid
from collections.abc import Sequence
from datetime import tzinfo
from typing import Protocol

import structlog
from msgspec.structs import replace

from minikubelet.api.batch import CronJob
from minikubelet.jobs.cron import decide_cron, is_active, job_name, minute_of, scheduled_job
from minikubelet.jobs.edits import edited_cron
from minikubelet.jobs.services import JobServices
from minikubelet.jobs.supervision import RETRY
from minikubelet.lifecycle.actions import Event
from minikubelet.store import jobs as books
from minikubelet.store.job_records import CronRecord, JobRecord, JobState

log = structlog.get_logger(__name__)

#: The longest sleep with a moment in view: a clock that was set meanwhile is noticed after that.
_LONGEST_SLEEP = 30.0


class Children(Protocol):
    """What a CronJob needs of the controller."""

    def children(self, cron_uid: str) -> list[JobRecord]:
        """The CronJob's Jobs, those on their way out included."""

    def is_taken(self, namespace: str, name: str) -> bool:
        """Whether there is a Job of that name."""

    def begin_child(self, job: JobRecord) -> None:
        """Run a Job that is in the books."""

    def remove_child(self, job_uid: str) -> None:
        """Remove a Job with its pods and logs."""


class CronWorker:
    """Runs one CronJob until it has been removed and none of its Jobs is left; whoever awaits `run` deletes its row."""

    def __init__(self, record: CronRecord, services: JobServices, parent: Children, *, local_zone: tzinfo) -> None:
        self.record = record
        self._services = services
        self._parent = parent
        self._local_zone = local_zone
        self._wake = asyncio.Event()
        self._wanted: tuple[CronJob | None, str] | None = None
        #: Names of unfinished Jobs, by uid, as of the last pass.
        self._active: dict[str, str] = {}
        self._removed: set[str] = set()
        self._said: set[Event] = set()
        self._log = log.bind(cronjob=f"{record.namespace}/{record.name}", uid=record.uid)

    def wake(self) -> None:
        self._wake.set()

    def follow(self, wanted: CronJob | None, *, file: str) -> None:
        """The manifest as it is now; None: it is gone."""
        if self._wanted is not None or (wanted, file) != (self.record.cron, self.record.file):
            self._wanted = (wanted, file)
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._follow_manifest()
                wake_at = await self._pass()
            except sqlite3.Error as error:
                self._log.warning("the books cannot be written; the CronJob waits", error=str(error), seconds=RETRY)
                await asyncio.sleep(RETRY)
                continue
            if self.record.removed and not self._parent.children(self.record.uid):
                return
            await self._sleep(wake_at)

    async def reload(self) -> None:
        """Begin again with what the books say."""
        loaded = await self._services.transact(books.load)
        self.record = next(cron for cron in loaded.crons if cron.uid == self.record.uid)

    async def _follow_manifest(self) -> None:
        if self._wanted is None or self.record.removed:
            return
        wanted, file = self._wanted
        if wanted is None:
            record = replace(self.record, removed=True)
        elif (wanted, file) != (self.record.cron, self.record.file):
            record = edited_cron(self.record, wanted, file=file, now=self._services.clock())
            self._said.clear()
        else:
            self._wanted = None
            return
        await self._services.transact(lambda connection: books.write_cron(connection, record))
        self.record, self._wanted = record, None

    async def _pass(self) -> float | None:
        now = self._services.clock()
        children = self._parent.children(self.record.uid)
        if self.record.removed:
            for job in children:
                self._parent.remove_child(job.uid)
            return None
        self._removed &= {job.uid for job in children}
        left = [job for job in children if job.uid not in self._removed]
        decision = decide_cron(self.record, left, now=now, local_zone=self._local_zone)
        events = [*self._watch(left), *self._news(decision.events)]
        if decision.cron != self.record or events:
            await self._write(decision.cron, events, now)
        for job in decision.remove:
            self._removed.add(job.uid)
            self._parent.remove_child(job.uid)
        # A Job that makes place is out of the books' running ones first: then no kill leaves two of them (R5). Whoever
        # writes that wakes this worker.
        if decision.start is not None and not self._still_running(children):
            await self._start(decision.start, now)
        return decision.wake_at

    def _still_running(self, children: Sequence[JobRecord]) -> bool:
        """Whether a Job that is to be removed is not marked so yet."""
        coming = (JobState.CURRENT, JobState.REPLACED)
        return any(job.uid in self._removed and job.state in coming for job in children)

    async def _start(self, moment: int, now: float) -> None:
        """The Job, its run and lastScheduleTime in one transaction: a minute never starts twice."""
        name = job_name(self.record, moment)
        if self._parent.is_taken(self.record.namespace, name):
            taken = Event(type="Warning", reason="FailedCreate", message=f"Error creating job: {name} exists already")
            await self._write(self.record, self._news([taken]), now)
            return
        job = scheduled_job(self.record, moment, uid=str(uuid.uuid4()), now=now)
        cron = replace(self.record, last_schedule_time=float(moment))
        created = Event(type="Normal", reason="SuccessfulCreate", message=f"Created job {job.name}")

        def write(connection: sqlite3.Connection) -> None:
            books.start_run(connection, cron, job, minute=minute_of(moment))
            books.add_events(connection, cron.uid, [created], now=now)

        try:
            await self._services.transact(write)
        except sqlite3.IntegrityError:
            self._log.info("this minute had its Job already", job=name)
            return
        self.record = cron
        self._said.clear()
        self._active[job.uid] = job.name
        self._log.info(created.message, reason=created.reason)
        self._parent.begin_child(job)

    async def _write(self, cron: CronRecord, events: Sequence[Event], now: float) -> None:
        def write(connection: sqlite3.Connection) -> None:
            books.write_cron(connection, cron)
            books.add_events(connection, cron.uid, events, now=now)

        if cron != self.record or events:
            await self._services.transact(write)
        self.record = cron
        for event in events:
            self._log.info(event.message, reason=event.reason)

    def _watch(self, jobs: Sequence[JobRecord]) -> list[Event]:
        """What became of the Jobs that were active."""
        events = []
        found = {job.uid: job for job in jobs}
        names = {job.name for job in jobs}  # one that was restarted has another uid
        for uid, name in self._active.items():
            job = found.get(uid)
            if job is None:
                if uid not in self._removed and name not in names:
                    events.append(Event(type="Normal", reason="MissingJob", message=f"Active job went missing: {name}"))
            elif job.finished is not None and job.state is not JobState.REPLACED:
                text = f"Saw completed job: {name}, condition: {job.finished.type}"
                events.append(Event(type="Normal", reason="SawCompletedJob", message=text))
        self._active = {job.uid: job.name for job in jobs if is_active(job)}
        return events

    def _news(self, events: Sequence[Event]) -> list[Event]:
        """Each thing is said once, until a Job was started or the manifest edited."""
        new = [event for event in events if event.reason == "SuccessfulDelete" or event not in self._said]
        self._said.update(new)
        return new

    async def _sleep(self, wake_at: float | None) -> None:
        timeout = None if wake_at is None else min(max(wake_at - self._services.clock(), 0.0), _LONGEST_SLEEP)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()
