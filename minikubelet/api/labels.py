"""The labels and annotations of a Job's pods, and label selectors (JOBS 3)."""

from __future__ import annotations

from collections.abc import Mapping

from minikubelet.api.scheduling import LabelSelector, LabelSelectorRequirement

JOB_UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
CRONJOB_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: On a Job that somebody made of a CronJob by hand; the value is MANUAL.
INSTANTIATE = "cronjob.kubernetes.io/instantiate"
MANUAL = "manual"


def selects(selector: LabelSelector, labels: Mapping[str, object]) -> bool:
    """Whether a selector matches. An empty one matches everything."""
    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return equal and all(_requirement(each, labels) for each in selector.match_expressions)


def _requirement(requirement: LabelSelectorRequirement, labels: Mapping[str, object]) -> bool:
    present, value = requirement.key in labels, labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return present and value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case _:
            return False
