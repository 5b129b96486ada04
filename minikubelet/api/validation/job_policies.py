"""Checks of a Job's podFailurePolicy and successPolicy (JOBS 8 and 9). Part of `jobs`."""

from __future__ import annotations

from minikubelet.api.batch import (
    COUNT,
    FAIL_INDEX,
    FAIL_JOB,
    IGNORE,
    JobSpec,
    OnExitCodes,
    OnPodCondition,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from minikubelet.api.index_set import IndexSet, IndexSetError
from minikubelet.api.problems import (
    Problem,
    Problems,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from minikubelet.api.validation import names

_MOST_RULES = 20
_MOST_PATTERNS = 20
_MOST_EXIT_CODES = 255
_MOST_INDEX_BYTES = 65_536
_ACTIONS = (COUNT, FAIL_INDEX, FAIL_JOB, IGNORE)
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


def failure_policy(policy: PodFailurePolicy, spec: JobSpec, *, path: str) -> Problems:
    rules = policy.rules
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), _MOST_RULES)
    pod = spec.template.spec
    containers = {container.name for container in (*pod.containers, *pod.init_containers)}
    for at, rule in enumerate(rules):
        yield from _failure_rule(
            rule, f"{path}.rules[{at}]", containers=containers, per_index=spec.backoff_limit_per_index is not None
        )


def _failure_rule(rule: PodFailurePolicyRule, path: str, *, containers: set[str], per_index: bool) -> Problems:
    if not rule.action:
        yield required(f"{path}.action", f"valid values: {_quoted(_ACTIONS)}")
    elif rule.action == FAIL_INDEX and not per_index:
        yield invalid(f"{path}.action", rule.action, "requires the backoffLimitPerIndex to be set")
    elif rule.action not in _ACTIONS:
        yield unsupported(f"{path}.action", rule.action, _ACTIONS)
    if rule.on_exit_codes is not None:
        yield from _exit_codes(rule.on_exit_codes, f"{path}.onExitCodes", containers)
    if rule.on_pod_conditions:
        yield from _conditions(rule.on_pod_conditions, f"{path}.onPodConditions")
    if rule.on_exit_codes is not None and rule.on_pod_conditions:
        yield Problem(path, "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported")
    if rule.on_exit_codes is None and not rule.on_pod_conditions:
        yield Problem(path, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(codes: OnExitCodes, path: str, containers: set[str]) -> Problems:
    if not codes.operator:
        yield required(f"{path}.operator", f"valid values: {_quoted(_OPERATORS)}")
    elif codes.operator not in _OPERATORS:
        yield unsupported(f"{path}.operator", codes.operator, _OPERATORS)
    if codes.container_name is not None and codes.container_name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes.container_name, detail)
    values = codes.values
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_EXIT_CODES:
        yield too_many(f"{path}.values", len(values), _MOST_EXIT_CODES)
    seen: set[int] = set()
    for at, value in enumerate(values):
        if codes.operator == "In" and value == 0:
            yield invalid(f"{path}.values[{at}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{at}]", value)
        seen.add(value)
    if list(values) != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _conditions(patterns: tuple[OnPodCondition, ...], path: str) -> Problems:
    if len(patterns) > _MOST_PATTERNS:
        yield too_many(path, len(patterns), _MOST_PATTERNS)
    for at, pattern in enumerate(patterns):
        for detail in names.qualified_name(pattern.type):
            yield invalid(f"{path}[{at}].type", pattern.type, detail)
        if pattern.status not in _STATUSES:
            yield unsupported(f"{path}[{at}].status", pattern.status, _STATUSES)


def success_policy(policy: SuccessPolicy, spec: JobSpec, *, path: str) -> Problems:
    rules = policy.rules
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", len(rules), _MOST_RULES)
    for at, rule in enumerate(rules):
        yield from _success_rule(rule, f"{path}.rules[{at}]", completions=spec.completions or 0)


def _success_rule(rule: SuccessPolicyRule, path: str, *, completions: int) -> Problems:
    text, count = rule.succeeded_indexes, rule.succeeded_count
    if text is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    indexes: IndexSet | None = None
    if text is not None:
        if len(text.encode()) > _MOST_INDEX_BYTES:
            yield too_long(f"{path}.succeededIndexes", _MOST_INDEX_BYTES)
        try:
            indexes = IndexSet.parse(text)
        except IndexSetError as error:
            yield invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {error}")
        else:
            if indexes.highest >= completions:
                detail = f"index {indexes.highest} is not below the number of completions, {completions}"
                yield invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {detail}")
    if count is None:
        return
    if count < 0:
        yield invalid(f"{path}.succeededCount", count, "must be greater than or equal to 0")
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield invalid(f"{path}.succeededCount", count, detail)
    if indexes is not None and count > len(indexes):
        most = len(indexes)
        detail = f"must be less than or equal to {most} (the number of indexes in the specified succeededIndexes field)"
        yield invalid(f"{path}.succeededCount", count, detail)


def _quoted(names: tuple[str, ...]) -> str:
    return " ".join(f'"{name}"' for name in names).join("[]")
