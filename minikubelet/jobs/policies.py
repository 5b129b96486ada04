"""What a Job's podFailurePolicy says of a failed pod, and its successPolicy of the completed indexes (JOBS 8 and 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikubelet.api.batch import (
    FAIL_JOB,
    OnExitCodes,
    OnPodCondition,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from minikubelet.api.index_set import IndexSet
from minikubelet.api.status import PodCondition
from minikubelet.store.job_records import Mark, PodRecord

#: Of a pod that the daemon ends for the host's sake.
_DISRUPTED = PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")


class Verdict(NamedTuple):
    """The first rule that matches. `message` is that of a Job which fails for it."""

    action: str
    message: str


def judge_failure(policy: PodFailurePolicy | None, pod: PodRecord) -> Verdict | None:
    """None: no rule matches, the failure counts as without a policy."""
    for at, rule in enumerate(policy.rules if policy else ()):
        if (what := _matching(rule, pod)) is not None:
            return Verdict(rule.action, f"{what} matching {FAIL_JOB} rule at index {at}")
    return None


def _matching(rule: PodFailurePolicyRule, pod: PodRecord) -> str | None:
    key = f"{pod.namespace}/{pod.name}"
    if rule.on_exit_codes is not None:
        for name, code in _exit_codes(pod):
            if _code_matches(rule.on_exit_codes, name, code):
                return f"Container {name} for pod {key} failed with exit code {code}"
        return None
    for condition in _conditions(pod):
        if any(_condition_matches(each, condition.type, condition.status) for each in rule.on_pod_conditions):
            return f"Pod {key} has condition {condition.type}"
    return None


def _exit_codes(pod: PodRecord) -> Iterator[tuple[str, int]]:
    """Failed containers: regular ones first, then init containers and sidecars, in the order of the spec."""
    statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
    if pod.pod is not None:
        order = [each.name for each in (*pod.pod.spec.containers, *pod.pod.spec.init_containers)]
        statuses.sort(key=lambda status: order.index(status.name))  # a pod shows them by name
    for each in statuses:
        if each.state.terminated is not None and each.state.terminated.exit_code != 0:
            yield each.name, each.state.terminated.exit_code


def _conditions(pod: PodRecord) -> Iterator[PodCondition]:
    """What the pod shows, and what follows from why it was marked: that outlives the pod and the daemon (JOBS 15)."""
    yield from pod.status.conditions
    if pod.mark is Mark.HOST:
        yield _DISRUPTED


def _code_matches(rule: OnExitCodes, name: str, code: int) -> bool:
    if rule.container_name not in (None, name):
        return False
    return (code in rule.values) == (rule.operator == "In")


def _condition_matches(pattern: OnPodCondition, kind: str, status: str) -> bool:
    return (pattern.type, pattern.status) == (kind, status)


def judge_success(policy: SuccessPolicy | None, completed: IndexSet) -> int | None:
    """The place of the first rule that is met. Nothing is met before one index has completed."""
    if policy is None or not completed.runs:
        return None
    return next((at for at, rule in enumerate(policy.rules) if _met(rule, completed)), None)


def _met(rule: SuccessPolicyRule, completed: IndexSet) -> bool:
    if rule.succeeded_indexes is None:
        return rule.succeeded_count is not None and len(completed) >= rule.succeeded_count
    wanted = IndexSet.parse(rule.succeeded_indexes)
    if not wanted.runs:
        return False
    have = wanted.common(completed)
    return have == len(wanted) or (rule.succeeded_count is not None and have >= rule.succeeded_count)
