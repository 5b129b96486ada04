"""The events of Jobs and CronJobs, which their books keep, in the shape of the pods' (JOBS 16), for the server."""

from __future__ import annotations

from msgspec.structs import replace

from minikubelet.jobs.controller import JobController
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.recorder import RecordedEvent
from minikubelet.store import jobs as books
from minikubelet.store.job_records import CronRecord, JobRecord
from minikubelet.store.jobs import StoredEvent


async def job_events(controller: JobController) -> list[RecordedEvent]:
    """Of all Jobs and CronJobs that there are; those of one object that are alike are one. Raises sqlite3.Error."""
    records = controller.roster.records()
    stored = await controller.services.transact(
        lambda connection: [books.events_of(connection, record.uid) for record in records]
    )
    return [event for record, events in zip(records, stored, strict=True) for event in merged(record, events)]


def merged(record: JobRecord | CronRecord, events: list[StoredEvent]) -> list[RecordedEvent]:
    """What happened more than once is counted, in order of the last time."""
    found: dict[Event, RecordedEvent] = {}
    for stored in events:
        event = Event(type=stored.type, reason=stored.reason, message=stored.message)
        before = found.pop(event, None)
        found[event] = (
            replace(before, count=before.count + 1, last_at=stored.at)
            if before is not None
            else RecordedEvent(
                kind="CronJob" if isinstance(record, CronRecord) else "Job",
                namespace=record.namespace,
                pod=record.name,
                uid=record.uid,
                event=event,
                count=1,
                first_at=stored.at,
                last_at=stored.at,
            )
        )
    return [*found.values()]
