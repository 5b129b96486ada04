"""Is a defaulted Job one that can be run? Kubernetes' own texts (VA-1, JOBS 2, 8, 9). Called by `decode`.

What concerns the pod template alone is asked of `pods`, with the paths moved below the template.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from minikubelet.api.base import kubernetes_name
from minikubelet.api.batch import (
    INDEXED,
    NON_INDEXED,
    ONLY_FAILED,
    TERMINATING_OR_FAILED,
    Job,
    JobSpec,
    PodTemplateSpec,
    is_indexed,
    managed_here,
)
from minikubelet.api.labels import JOB_NAME_LABELS, JOB_UID_LABELS, selects
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem, Problems, forbidden, invalid, required, too_long, unsupported
from minikubelet.api.validation import names
from minikubelet.api.validation.job_policies import failure_policy, success_policy
from minikubelet.api.validation.metadata import validate_metadata
from minikubelet.api.validation.pods import pod_spec_warnings, validate_pod

#: A Job's name becomes the value of a label.
_LONGEST_NAME = 63
_LONGEST_MANAGER = 63
_MOST_PARALLEL = 100_000
_MOST_FAILED_INDEXES = 100_000
#: Above this many completions, a Job that is retried by index has to keep within the smaller limit.
_MANY_COMPLETIONS = 100_000
_MOST_WITH_MANY = 10_000
_URL_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
#: Stands for a uid that does not exist yet.
_NO_UID = object()


def validate_job(job: Job, *, sidecar_containers: bool) -> list[Problem]:
    """Every problem of a defaulted Job, in the reference's order."""
    return [
        *job_metadata(job.metadata, kind="Job", longest=_LONGEST_NAME),
        *_index_host_names(job.metadata.name, job.spec),
        *job_spec(job.spec, path="spec", sidecar_containers=sidecar_containers),
        *_selector(job.metadata.name, job.spec),
    ]


def job_warnings(job: Job) -> list[Problem]:
    """What is accepted and deserves a word in the log."""
    found = [*uid_warnings(job.metadata), *spec_warnings(job.spec, path="spec")]
    if names.dns_label(job.metadata.name):
        found.append(Problem("metadata.name", "is no DNS label, so its pods' host names may not work"))
    return found


def uid_warnings(metadata: ObjectMeta) -> list[Problem]:
    if metadata.uid:
        return [Problem("metadata.uid", "is not used: it gets a uid of its own each time it is accepted")]
    return []


def spec_warnings(spec: JobSpec, *, path: str) -> list[Problem]:
    found = []
    if spec.backoff_limit_per_index is not None and spec.template.spec.restart_policy == "OnFailure":
        detail = "has next to no effect with restartPolicy OnFailure: restarts in a pod count against backoffLimit only"
        found.append(Problem(f"{path}.backoffLimitPerIndex", detail))
    if not managed_here(spec):
        found.append(Problem(f"{path}.managedBy", f"says that {spec.managed_by} runs this Job: it is not run here"))
    found += [Problem(f"{path}.template.{each.path}", each.message) for each in pod_spec_warnings(spec.template.spec)]
    return found


def job_metadata(metadata: ObjectMeta, *, kind: str, longest: int) -> Problems:
    yield from validate_metadata(metadata, kind=kind)
    if len(metadata.name) > longest:
        yield invalid("metadata.name", metadata.name, f"must be no more than {longest} characters")


def _index_host_names(name: str, spec: JobSpec) -> Problems:
    """Each index's `<job>-<index>` is a host name."""
    if is_indexed(spec) and spec.completions is not None and spec.completions > 0:
        longest = f"{name}-{spec.completions - 1}"
        for detail in names.dns_label(longest):
            yield invalid("metadata.name", name, f"the host name of the last index would be {longest}: {detail}")


def job_spec(spec: JobSpec, *, path: str, sidecar_containers: bool) -> Problems:
    """The spec of a Job, or of a CronJob's template at `path`."""
    yield from _not_negative(spec, path)
    if spec.completion_mode not in (INDEXED, NON_INDEXED):
        yield unsupported(f"{path}.completionMode", spec.completion_mode, (INDEXED, NON_INDEXED))
    elif is_indexed(spec):
        yield from _indexed(spec, path)
    else:
        for field in ("backoff_limit_per_index", "max_failed_indexes", "success_policy"):
            value = getattr(spec, field)
            if value is not None:
                yield invalid(f"{path}.{kubernetes_name(field)}", value, "requires indexed completion mode")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.pod_failure_policy is not None:
        yield from failure_policy(spec.pod_failure_policy, spec, path=f"{path}.podFailurePolicy")
    if spec.success_policy is not None and is_indexed(spec):
        yield from success_policy(spec.success_policy, spec, path=f"{path}.successPolicy")
    yield from _replacement_policy(spec, path)
    if spec.managed_by is not None:
        yield from _managed_by(spec.managed_by, f"{path}.managedBy")
    yield from _template(spec, path=path, sidecar_containers=sidecar_containers)


def _not_negative(spec: JobSpec, path: str) -> Problems:
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        if value is not None and value < 0:
            yield invalid(f"{path}.{name}", value, "must be greater than or equal to 0")


def _indexed(spec: JobSpec, path: str) -> Problems:
    parallelism, completions, failed = spec.parallelism or 0, spec.completions, spec.max_failed_indexes
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", parallelism, detail)
    if failed is not None and failed > _MOST_FAILED_INDEXES:
        yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED_INDEXES}")
    if completions is None:
        return
    if failed is not None and failed > completions:
        yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if completions > _MANY_COMPLETIONS and spec.backoff_limit_per_index is not None:
        detail = (
            f"must be less than or equal to {_MOST_WITH_MANY} when completions are above {_MANY_COMPLETIONS} and used "
            "with backoff limit per index"
        )
        if failed is None:
            missing = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            yield required(f"{path}.maxFailedIndexes", missing)
        elif failed > _MOST_WITH_MANY:
            yield invalid(f"{path}.maxFailedIndexes", failed, detail)
        if parallelism > _MOST_WITH_MANY:
            yield invalid(f"{path}.parallelism", parallelism, detail)


def _replacement_policy(spec: JobSpec, path: str) -> Problems:
    policy = spec.pod_replacement_policy
    known = [ONLY_FAILED, TERMINATING_OR_FAILED] if spec.pod_failure_policy is None else [ONLY_FAILED]
    if policy not in known:
        yield unsupported(f"{path}.podReplacementPolicy", policy, known)


def _managed_by(value: str, path: str) -> Problems:
    domain, slash, rest = value.partition("/")
    if not slash or not domain or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for detail in names.dns_subdomain(domain):
            yield invalid(path, domain, detail)
        if not _URL_PATH.fullmatch(rest):
            yield invalid(path, rest, f"Invalid path (regex used for validation is '{_URL_PATH.pattern}')")
    if len(value) > _LONGEST_MANAGER:
        yield too_long(path, _LONGEST_MANAGER)


def _template(spec: JobSpec, *, path: str, sidecar_containers: bool) -> Problems:
    policy = spec.template.spec.restart_policy
    policy_path = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        yield required(policy_path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield unsupported(policy_path, policy, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and policy != "Never":
        yield invalid(policy_path, policy, 'only "Never" is supported when podFailurePolicy is specified')
    if policy not in ("OnFailure", "Never"):
        policy = "Never"  # what is wrong with it has been said
    yield from _template_pod(spec.template, policy=policy, path=path, sidecar_containers=sidecar_containers)


def _template_pod(template: PodTemplateSpec, *, policy: str, path: str, sidecar_containers: bool) -> Problems:
    if template.metadata.uid:
        yield forbidden(f"{path}.template.metadata.uid", "each pod of a Job has a uid of its own")
    pod = Pod(
        metadata=replace(template.metadata, name="pod", namespace="default", uid=""),  # its Job gives it all of these
        spec=replace(template.spec, restart_policy=policy),
    )
    for problem in validate_pod(pod, sidecar_containers=sidecar_containers):
        yield Problem(f"{path}.template.{problem.path}", problem.message)


def _selector(name: str, spec: JobSpec) -> Problems:
    """Labels of its own that contradict what a Job's pods get, and selectors that would not find its pods (JOBS 3)."""
    labels: dict[str, object] = dict(spec.template.metadata.labels)
    path = "spec.template.metadata.labels"
    if spec.manual_selector:
        if spec.selector is None:
            yield required("spec.selector")
        elif not selects(spec.selector, labels):
            yield invalid(path, spec.template.metadata.labels, "`selector` does not match template `labels`")
        return
    for label in JOB_UID_LABELS:
        if label in labels:
            detail = "must be the Job's uid, which it is given when it is accepted: leave it out"
            yield invalid(f"{path}[{label}]", labels[label], detail)
    for label in JOB_NAME_LABELS:
        if labels.get(label, name) != name:
            yield invalid(f"{path}[{label}]", labels[label], f"must be '{name}'")
    generated = labels | dict.fromkeys(JOB_UID_LABELS, _NO_UID) | dict.fromkeys(JOB_NAME_LABELS, name)
    if spec.selector is not None and not selects(spec.selector, generated):
        yield invalid("spec.selector", spec.selector, "`selector` not auto-generated")
