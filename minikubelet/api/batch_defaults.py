"""What a Job's or CronJob's manifest leaves out (JOBS 2 and 14). Applying it twice changes nothing."""

from __future__ import annotations

from msgspec.structs import replace

from minikubelet.api.batch import (
    ALLOW,
    NON_INDEXED,
    ONLY_FAILED,
    TERMINATING_OR_FAILED,
    CronJob,
    Job,
    JobSpec,
    OnPodCondition,
    PodFailurePolicy,
    PodFailurePolicyRule,
    PodTemplateSpec,
)
from minikubelet.api.defaults import with_defaults
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod

_MAX_INT32 = (1 << 31) - 1
_BACKOFF_LIMIT = 6


def with_job_defaults(job: Job) -> Job:
    return replace(job, metadata=_metadata(job.metadata), spec=_job_spec(job.spec))


def with_cronjob_defaults(cron: CronJob) -> CronJob:
    template = cron.spec.job_template
    spec = replace(
        cron.spec,
        concurrency_policy=cron.spec.concurrency_policy or ALLOW,
        job_template=replace(template, spec=_job_spec(template.spec)),
    )
    return replace(cron, metadata=_metadata(cron.metadata), spec=spec)


def _metadata(metadata: ObjectMeta) -> ObjectMeta:
    return replace(metadata, namespace=metadata.namespace or "default")


def _job_spec(spec: JobSpec) -> JobSpec:
    completions, parallelism = spec.completions, spec.parallelism
    if completions is None and parallelism is None:
        completions = 1
    backoff_limit = spec.backoff_limit
    if backoff_limit is None:
        backoff_limit = _BACKOFF_LIMIT if spec.backoff_limit_per_index is None else _MAX_INT32
    replacement = spec.pod_replacement_policy
    if replacement is None:
        replacement = TERMINATING_OR_FAILED if spec.pod_failure_policy is None else ONLY_FAILED
    return replace(
        spec,
        parallelism=1 if parallelism is None else parallelism,
        completions=completions,
        completion_mode=NON_INDEXED if spec.completion_mode is None else spec.completion_mode,
        backoff_limit=backoff_limit,
        pod_failure_policy=spec.pod_failure_policy and _failure_policy(spec.pod_failure_policy),
        pod_replacement_policy=replacement,
        template=_template(spec.template),
    )


def _template(template: PodTemplateSpec) -> PodTemplateSpec:
    """As a Pod's, but an empty restartPolicy stays empty: a Job has no default for it."""
    spec = with_defaults(Pod(spec=template.spec)).spec
    return replace(template, spec=replace(spec, restart_policy=template.spec.restart_policy))


def _failure_policy(policy: PodFailurePolicy) -> PodFailurePolicy:
    return PodFailurePolicy(rules=tuple(_failure_rule(rule) for rule in policy.rules))


def _failure_rule(rule: PodFailurePolicyRule) -> PodFailurePolicyRule:
    patterns = tuple(OnPodCondition(type=it.type, status=it.status or "True") for it in rule.on_pod_conditions)
    return replace(rule, on_pod_conditions=patterns)
