"""What an edit of a Job's or CronJob's manifest means for the one that is remembered (JOBS 2, 10.2, 13, 14)."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from minikubelet.api.batch import CronJob, Job, JobSpec, PodTemplateSpec, is_indexed
from minikubelet.api.container import Container, ResourceRequirements
from minikubelet.api.scheduling import Affinity
from minikubelet.store.job_records import CronRecord, JobRecord, JobState, PodRecord


class Edit(enum.Enum):
    NONE = "none"
    #: Applies to the run that exists.
    IN_PLACE = "in place"
    #: Needs a new generation.
    REPLACES = "replaces"


def judge_edit(record: JobRecord, new: Job, *, active: int) -> Edit:
    """`active`: live pods of the Job."""
    old = record.job
    if old == new:
        return Edit.NONE
    if _immutable(old.spec, new.spec) == _immutable(new.spec, new.spec):
        return Edit.IN_PLACE
    condition = next((c for c in record.conditions if c.type == "Suspended"), None)
    stopped = record.start_time is None or (condition is not None and condition.status == "True")
    if record.suspended and stopped and not active and record.finished is None:
        eased = replace(old.spec, template=_eased(old.spec.template))
        if _immutable(eased, new.spec) == _immutable(replace(new.spec, template=_eased(new.spec.template)), new.spec):
            return Edit.IN_PLACE
    return Edit.REPLACES


def edited(record: JobRecord, new: Job, *, file: str) -> JobRecord:
    """The record after an edit in place. A finished Job keeps everything that it says of itself."""
    record = replace(record, job=new, file=file, suspend=kept_suspend(record, new))
    completions = new.spec.completions
    if record.finished is not None or not is_indexed(new.spec) or completions is None:
        return record
    return replace(
        record,
        completed=record.completed.below(completions),
        failed_indexes=record.failed_indexes.below(completions),
        indexes={index: it for index, it in record.indexes.items() if index < completions},
    )


def kept_suspend(record: JobRecord, new: Job) -> bool | None:
    """What a command said of suspending holds over edits, new generations included, until the file's own word changes.

    Not beyond the Job: one that was removed or has expired is forgotten.
    """
    on = record.state in (JobState.CURRENT, JobState.REPLACED) and new.spec.suspend == record.job.spec.suspend
    return record.suspend if on else None


def cut(record: JobRecord, pods: Iterable[PodRecord]) -> list[PodRecord]:
    """The pods whose index an edit has cut off, flagged as such: they count no more (JOBS 6)."""
    completions = record.job.spec.completions
    if record.finished is not None or not is_indexed(record.job.spec) or completions is None:
        return []
    return [
        replace(pod, cut=True)
        for pod in pods
        if pod.index is not None and pod.index >= completions and pod.outcome is not None and not pod.cut
    ]


def _immutable(spec: JobSpec, new: JobSpec) -> JobSpec:
    """The spec without what may be edited."""
    scaled = is_indexed(new) and new.completions == new.parallelism
    return replace(
        spec,
        parallelism=None,
        completions=None if scaled else spec.completions,
        backoff_limit=None,
        max_failed_indexes=None,
        active_deadline_seconds=None,
        ttl_seconds_after_finished=None,
        suspend=False,
        pod_replacement_policy=None,
        manual_selector=False,
    )


def _eased(template: PodTemplateSpec) -> PodTemplateSpec:
    """A template without what may be edited while the Job is suspended."""
    spec = template.spec
    affinity = spec.affinity and replace(spec.affinity, node_affinity=None)
    return PodTemplateSpec(
        metadata=replace(template.metadata, labels={}, annotations={}),
        spec=replace(
            spec,
            containers=tuple(_without_resources(each) for each in spec.containers),
            init_containers=tuple(_without_resources(each) for each in spec.init_containers),
            node_selector={},
            tolerations=(),
            affinity=None if affinity == Affinity() else affinity,
            scheduling_gates=(),
        ),
    )


def _without_resources(container: Container) -> Container:
    return replace(container, resources=ResourceRequirements())


def edited_cron(record: CronRecord, new: CronJob, *, file: str, now: float) -> CronRecord:
    """After an edit of a CronJob: another schedule catches nothing up."""
    old = record.cron.spec
    rescheduled = (old.schedule, old.time_zone) != (new.spec.schedule, new.spec.time_zone)
    return replace(record, cron=new, file=file, reference_at=now if rescheduled else record.reference_at)


def canonical(spec: msgspec.Struct) -> bytes:
    """The content by which edits are told: defaults filled in, keys sorted."""
    return msgspec.json.encode(spec, order="sorted")
