"""The Job and the CronJob (batch/v1), every field of them.

`decode` makes them from manifests, `jobs/` runs them. What a pod template may say is what a Pod may say.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from minikubelet.api.base import Int32, Int64, Object, shown
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import PodSpec
from minikubelet.api.scheduling import LabelSelector
from minikubelet.api.support import NO_CLUSTER, accepted

NON_INDEXED, INDEXED = "NonIndexed", "Indexed"
#: Values of podReplacementPolicy.
TERMINATING_OR_FAILED, ONLY_FAILED = "TerminatingOrFailed", "Failed"
#: Actions of a podFailurePolicy.
FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"
ALLOW, FORBID, REPLACE = "Allow", "Forbid", "Replace"
JOB_CONTROLLER = "kubernetes.io/job-controller"

_WORKED_OUT = accepted("is worked out anew; what the file says is not used", keep=False)


class PodTemplateSpec(Object):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class OnExitCodes(Object):
    operator: str = ""
    container_name: str | None = None
    values: tuple[Int32, ...] = ()


class OnPodCondition(Object):
    type: str = ""
    status: str = shown("True")


class PodFailurePolicyRule(Object):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(Object):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Object):
    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Object):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(Object):
    """After `with_job_defaults` only what is really optional is None: see JOBS 2."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    suspend: bool = shown(False)
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str | None = None
    selector: LabelSelector | None = None
    manual_selector: bool = False
    managed_by: str | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)


class JobCondition(Object):
    type: str
    status: str
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class JobStatus(Object):
    conditions: tuple[JobCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: Int32 = 0
    ready: Int32 | None = None
    terminating: Int32 | None = None
    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    #: None unless the Job has backoffLimitPerIndex.
    failed_indexes: str | None = None
    #: Always empty here: an outcome and its counter are one transaction (JOBS 4).
    uncounted_terminated_pods: dict[str, Any] | None = None


class Job(Object, tag_field="kind", tag="Job"):
    api_version: str = shown("batch/v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: Annotated[JobStatus | None, _WORKED_OUT] = None


class JobTemplateSpec(Object):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)


class CronJobSpec(Object):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str = shown(ALLOW)
    suspend: bool = shown(False)
    job_template: JobTemplateSpec = msgspec.field(default_factory=JobTemplateSpec)
    successful_jobs_history_limit: Int32 = shown(3)
    failed_jobs_history_limit: Int32 = shown(1)


class ObjectReference(Object):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: Annotated[str, NO_CLUSTER] = ""
    field_path: Annotated[str, NO_CLUSTER] = ""


class CronJobStatus(Object):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Object, tag_field="kind", tag="CronJob"):
    api_version: str = shown("batch/v1")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: Annotated[CronJobStatus | None, _WORKED_OUT] = None


def is_indexed(spec: JobSpec) -> bool:
    return spec.completion_mode == INDEXED


def managed_here(spec: JobSpec) -> bool:
    """Whether this daemon runs the Job, and nobody else does (JOBS 2)."""
    return spec.managed_by in (None, JOB_CONTROLLER)
