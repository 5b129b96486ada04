"""The Jobs and CronJobs that there are: their workers, what is left of expired Jobs, who is told of what.

`controller` adds and removes; CronJobs' workers ask for their Jobs (`cron_worker.Children`); the server shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from minikubelet.api.batch import CronJob, Job
from minikubelet.jobs.cron_worker import CronWorker
from minikubelet.jobs.status import shown_cronjob, shown_job
from minikubelet.jobs.worker import JobWorker
from minikubelet.store.job_records import CronRecord, JobRecord


class Key(NamedTuple):
    namespace: str
    name: str


class Manifest(NamedTuple):
    """A Job or CronJob that the folder asks for, and the file that says so."""

    object: Any
    file: str


def key_of(record: JobRecord | CronRecord) -> Key:
    return Key(record.namespace, record.name)


class Roster:
    def __init__(self, begin_child: Callable[[JobRecord], None]) -> None:
        """`begin_child`: runs a Job that is in the books."""
        self.begin_child = begin_child
        self.jobs: dict[Key, JobWorker] = {}
        self.crons: dict[Key, CronWorker] = {}
        self.tombstones: dict[Key, JobRecord] = {}
        self._subscribers: list[Callable[[], None]] = []

    # ---- what people see ---------------------------------------------------------------
    def shown_jobs(self) -> list[Job]:
        return [shown_job(worker.record, worker.pods.values()) for worker in self.jobs.values()]

    def shown_job(self, namespace: str, name: str) -> Job | None:
        worker = self.jobs.get(Key(namespace, name))
        return None if worker is None else shown_job(worker.record, worker.pods.values())

    def shown_cronjobs(self) -> list[CronJob]:
        return [shown_cronjob(it.record, self.children(it.record.uid)) for it in self.crons.values()]

    def records(self) -> list[JobRecord | CronRecord]:
        """Of everything that has something in the books, expired Jobs included."""
        jobs = [worker.record for worker in self.jobs.values()]
        return [*jobs, *self.tombstones.values(), *(worker.record for worker in self.crons.values())]

    # ---- what a CronJob needs -----------------------------------------------------------
    def children(self, cron_uid: str) -> list[JobRecord]:
        return [worker.record for worker in self.jobs.values() if worker.record.owner == cron_uid]

    def is_taken(self, namespace: str, name: str) -> bool:
        key = Key(namespace, name)
        return key in self.jobs or key in self.tombstones

    def remove_child(self, job_uid: str) -> None:
        for worker in self.jobs.values():
            if worker.record.uid == job_uid:
                worker.remove()

    # ---- who is told ------------------------------------------------------------------
    def subscribe(self, subscriber: Callable[[], None]) -> Callable[[], None]:
        """Be told when a Job or CronJob may look different. Returns what ends it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def job_changed(self, job: JobRecord) -> None:
        self.wake_cron(job.owner)
        self.changed()

    def wake_cron(self, uid: str) -> None:
        for worker in self.crons.values() if uid else ():
            if worker.record.uid == uid:
                worker.wake()

    def changed(self) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber()
