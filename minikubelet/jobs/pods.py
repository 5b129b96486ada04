"""The Pod that a Job makes from its template: name, labels, host name and index (JOBS 3)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from minikubelet.api.batch import is_indexed
from minikubelet.api.environment import EnvVar, EnvVarSource, ObjectFieldSelector
from minikubelet.api.labels import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    JOB_NAME_LABELS,
    JOB_UID_LABELS,
)
from minikubelet.api.meta import ObjectMeta, OwnerReference
from minikubelet.api.pod import Container, Pod
from minikubelet.jobs.adjust import NewPod
from minikubelet.lifecycle.times import rfc3339
from minikubelet.store.job_records import JobRecord, PodRecord

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_LONGEST_PREFIX = 58
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_INDEX_FIELD = f"metadata.labels['{COMPLETION_INDEX}']"

#: Draws one of the given characters.
Draw = Callable[[str], str]


def pod_name(job_name: str, index: int | None, *, draw: Draw) -> str:
    """`<job>-xxxxx`, or `<job>-<index>-xxxxx`; the Job's name is cut where it would become too long."""
    suffix = "".join(draw(_ALPHABET) for _ in range(_SUFFIX_LENGTH))
    if index is None:
        return f"{job_name}-"[:_LONGEST_PREFIX] + suffix
    tail = f"-{index}-"
    return job_name[: _LONGEST_PREFIX - len(tail)] + tail + suffix


def new_record(job: JobRecord, new: NewPod, *, name: str, uid: str, node_name: str, now: float) -> PodRecord:
    """The record of a pod that is to be made, with the whole Pod in it."""
    record = PodRecord(
        uid=uid,
        job_uid=job.uid,
        namespace=job.namespace,
        name=name,
        created_at=now,
        index=new.index,
        failures=new.failures,
        ignored=new.ignored,
    )
    return replace(record, pod=_pod(job, record, node_name=node_name))


def generated_labels(job: JobRecord) -> dict[str, str]:
    """What every pod of the Job carries besides its template's labels."""
    if job.job.spec.manual_selector:
        return {}
    return {**dict.fromkeys(JOB_UID_LABELS, job.uid), **dict.fromkeys(JOB_NAME_LABELS, job.name)}


def _pod(job: JobRecord, record: PodRecord, *, node_name: str) -> Pod:
    template = job.job.spec.template
    spec = replace(template.spec, node_name=node_name)
    labels = {**template.metadata.labels, **generated_labels(job)}
    annotations = dict(template.metadata.annotations)
    if record.index is not None and is_indexed(job.job.spec):
        labels[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = str(record.index)
        if job.job.spec.backoff_limit_per_index is not None:
            annotations[INDEX_FAILURE_COUNT] = str(record.failures)
            if record.ignored:
                annotations[INDEX_IGNORED_FAILURE_COUNT] = str(record.ignored)
        spec = replace(
            spec,
            hostname=f"{job.name}-{record.index}",
            containers=tuple(_with_index(each) for each in spec.containers),
            init_containers=tuple(_with_index(each) for each in spec.init_containers),
        )
    owner = OwnerReference(
        api_version=job.job.api_version,
        kind="Job",
        name=job.name,
        uid=job.uid,
        controller=True,
        block_owner_deletion=True,
    )
    metadata = ObjectMeta(
        name=record.name,
        namespace=record.namespace,
        uid=record.uid,
        labels=labels,
        annotations=annotations,
        creation_timestamp=rfc3339(record.created_at),
        owner_references=(owner,),
    )
    return Pod(metadata=metadata, spec=spec)


def _with_index(container: Container) -> Container:
    """The index as a variable, unless the container has one of that name."""
    if any(each.name == _INDEX_VARIABLE for each in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=_INDEX_FIELD))
    return replace(container, env=(*container.env, EnvVar(name=_INDEX_VARIABLE, value_from=source)))
