"""Jobs and CronJobs as manifests: defaults, and what is refused with which words (JOBS 2, 3, 8, 9, 14)."""

from __future__ import annotations

import copy
import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from minikubelet.api.batch import CronJob, Job, JobSpec
from minikubelet.api.decode import DecodedFile, decode_file
from minikubelet.api.zones import ZoneError, load_zone, local_zone

CONTAINER = {"name": "main", "image": "busybox"}


def decode(manifest: dict[str, Any]) -> DecodedFile:
    return decode_file("f.json", msgspec.json.encode(manifest), node_name="node")


def job(spec: dict[str, Any] | None = None, *, pod: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER], **(pod or {})}}
    spec = {"template": template, **(spec or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", **metadata}, "spec": spec}


def cron(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, **(spec or {})}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", **metadata}, "spec": spec}


def errors(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    return [(error.path, error.message) for error in decode(manifest).errors]


def spec_of(manifest: dict[str, Any]) -> JobSpec:
    found = decode(manifest)
    assert not found.errors, [str(error) for error in found.errors]
    (obj,) = found.objects
    assert isinstance(obj, Job)
    spec: JobSpec = obj.spec
    return spec


INDEXED = {"completionMode": "Indexed", "completions": 4}
FAIL_POLICY = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]}


def test_defaults_of_an_empty_spec() -> None:
    spec = spec_of(job())
    assert (spec.parallelism, spec.completions, spec.completion_mode) == (1, 1, "NonIndexed")
    assert (spec.backoff_limit, spec.pod_replacement_policy, spec.suspend) == (6, "TerminatingOrFailed", False)
    assert spec.template.spec.containers[0].image_pull_policy == "Always"
    assert spec.template.spec.termination_grace_period_seconds == 30


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"parallelism": 3}, "completions", None),
        ({"completions": 3}, "parallelism", 1),
        ({**INDEXED, "backoffLimitPerIndex": 1}, "backoff_limit", 2147483647),
        ({**INDEXED, "backoffLimitPerIndex": 1, "backoffLimit": 2}, "backoff_limit", 2),
        ({"podFailurePolicy": FAIL_POLICY}, "pod_replacement_policy", "Failed"),
        ({"parallelism": 0}, "parallelism", 0),
    ],
)
def test_defaults_that_depend_on_other_fields(given: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(spec_of(job(given)), field) == value


def test_defaults_of_policies_and_cronjobs() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    policy = spec_of(job({"podFailurePolicy": {"rules": rules}})).pod_failure_policy
    assert policy is not None
    assert policy.rules[0].on_pod_conditions[0].status == "True"
    (obj,) = decode(cron()).objects
    assert isinstance(obj, CronJob)
    spec = obj.spec
    assert (spec.concurrency_policy, spec.successful_jobs_history_limit, spec.failed_jobs_history_limit) == (
        "Allow",
        3,
        1,
    )
    assert spec.job_template.spec.backoff_limit == 6
    assert obj.metadata.namespace == "default"


def test_defaults_written_out_change_nothing() -> None:
    (obj,) = decode(job()).objects
    (again,) = decode_file("f.json", msgspec.json.encode(obj), node_name="node").objects
    assert again == obj


def rules(*values: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(values)}}


def codes(**fields: Any) -> dict[str, Any]:
    return {"action": "Count", "onExitCodes": {"operator": "In", "values": [1], **fields}}


NOT_NEGATIVE = "must be greater than or equal to 0"
MANY = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"parallelism": -1}, "parallelism", f"Invalid value: -1: {NOT_NEGATIVE}"),
        ({"completions": -1}, "completions", f"Invalid value: -1: {NOT_NEGATIVE}"),
        ({"backoffLimit": -1}, "backoffLimit", f"Invalid value: -1: {NOT_NEGATIVE}"),
        ({"activeDeadlineSeconds": -1}, "activeDeadlineSeconds", f"Invalid value: -1: {NOT_NEGATIVE}"),
        ({"ttlSecondsAfterFinished": -1}, "ttlSecondsAfterFinished", f"Invalid value: -1: {NOT_NEGATIVE}"),
        (
            {"completionMode": "Other"},
            "completionMode",
            'Unsupported value: "Other": supported values: "Indexed", "NonIndexed"',
        ),
        (
            {"completionMode": "Indexed", "parallelism": 1},
            "completions",
            "Required value: when completion mode is Indexed",
        ),
        (
            {**INDEXED, "parallelism": 100001},
            "parallelism",
            "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        ),
        ({"backoffLimitPerIndex": 1}, "backoffLimitPerIndex", "Invalid value: 1: requires indexed completion mode"),
        (
            {**INDEXED, "maxFailedIndexes": 1},
            "backoffLimitPerIndex",
            "Required value: when maxFailedIndexes is specified",
        ),
        (
            {**INDEXED, "maxFailedIndexes": 5, "backoffLimitPerIndex": 1},
            "maxFailedIndexes",
            "Invalid value: 5: must be less than or equal to completions",
        ),
        (
            {**INDEXED, "completions": 100001, "backoffLimitPerIndex": 1},
            "maxFailedIndexes",
            "Required value: must be specified when completions is above 100000",
        ),
        (
            {**INDEXED, "completions": 100001, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10001},
            "maxFailedIndexes",
            f"Invalid value: 10001: {MANY}",
        ),
        (
            {
                **INDEXED,
                "completions": 100001,
                "backoffLimitPerIndex": 1,
                "maxFailedIndexes": 1,
                "parallelism": 10001,
            },
            "parallelism",
            f"Invalid value: 10001: {MANY}",
        ),
        (
            {"podReplacementPolicy": "Never"},
            "podReplacementPolicy",
            'Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"',
        ),
        (
            {"podReplacementPolicy": "TerminatingOrFailed", "podFailurePolicy": FAIL_POLICY},
            "podReplacementPolicy",
            'Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
        ),
        (
            {"managedBy": "me"},
            "managedBy",
            'Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        ({"managedBy": "a.b/" + "c" * 60}, "managedBy", "Too long: may not be more than 63 bytes"),
        ({"manualSelector": True}, "selector", "Required value"),
        (
            {"selector": {"matchLabels": {"controller-uid": "1"}}},
            "selector",
            'Invalid value: {"matchLabels":{"controller-uid":"1"}}: `selector` not auto-generated',
        ),
        (
            rules(codes(values=[3, 1])),
            "podFailurePolicy.rules[0].onExitCodes.values",
            "Invalid value: [3,1]: must be ordered",
        ),
        (
            rules(codes(values=[1, 1])),
            "podFailurePolicy.rules[0].onExitCodes.values[1]",
            "Duplicate value: 1",
        ),
        (
            rules(codes(values=[0, 1])),
            "podFailurePolicy.rules[0].onExitCodes.values[0]",
            "Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            rules(codes(values=[])),
            "podFailurePolicy.rules[0].onExitCodes.values",
            "Invalid value: []: at least one value is required",
        ),
        (
            rules(codes(values=list(range(1, 257)))),
            "podFailurePolicy.rules[0].onExitCodes.values",
            "Too many: 256: must have at most 255 items",
        ),
        (
            rules(codes(containerName="other")),
            "podFailurePolicy.rules[0].onExitCodes.containerName",
            'Invalid value: "other": must be one of the container or initContainer names in the pod template',
        ),
        (
            rules({**codes(), "action": "FailIndex"}),
            "podFailurePolicy.rules[0].action",
            'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
        ),
        (
            rules({**codes(), "action": "Retry"}),
            "podFailurePolicy.rules[0].action",
            'Unsupported value: "Retry": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
        ),
        (
            rules({"action": "Count"}),
            "podFailurePolicy.rules[0]",
            "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
        ),
        (
            rules({**codes(), "onPodConditions": [{"type": "Ready"}]}),
            "podFailurePolicy.rules[0]",
            "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (
            rules({"action": "Count", "onPodConditions": [{"type": "Ready", "status": "Maybe"}]}),
            "podFailurePolicy.rules[0].onPodConditions[0].status",
            'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
        (rules(*[codes()] * 21), "podFailurePolicy.rules", "Too many: 21: must have at most 20 items"),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            "successPolicy",
            'Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode',
        ),
        (
            {**INDEXED, "successPolicy": {"rules": []}},
            "successPolicy.rules",
            "Required value: at least one rules must be specified when successPolicy is specified",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{}]}},
            "successPolicy.rules[0]",
            "Required value: at least one of succeededCount or succeededIndexes must be specified",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 5}]}},
            "successPolicy.rules[0].succeededCount",
            "Invalid value: 5: must be less than or equal to 4 (the number of specified completions)",
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 3, "succeededIndexes": "0,1"}]}},
            "successPolicy.rules[0].succeededCount",
            (
                "Invalid value: 3: must be less than or equal to 2"
                " (the number of indexes in the specified succeededIndexes field)"
            ),
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1-4"}]}},
            "successPolicy.rules[0].succeededIndexes",
            'Invalid value: "1-4": error parsing succeededIndexes: index 4 is not below the number of completions, 4',
        ),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "2,1"}]}},
            "successPolicy.rules[0].succeededIndexes",
            'Invalid value: "2,1": error parsing succeededIndexes: 1 does not come after 2',
        ),
        ({"parallelism": "2"}, "parallelism", None),
        ({"parallelism": True}, "parallelism", None),
        ({"parallelism": 1.5}, "parallelism", None),
        ({"backofLimit": 2}, "backofLimit", "Unknown field: did you mean backoffLimit?"),
    ],
)  # fmt: skip
def test_what_is_refused_in_a_spec(spec: dict[str, Any], path: str, message: str | None) -> None:
    found = errors(job(spec))
    assert [where for where, _ in found] == [f"spec.{path}"]
    if message is not None:
        assert found[0][1] == message


@pytest.mark.parametrize("policy", ["", "Always", None])
def test_a_restart_policy_must_be_written(policy: str | None) -> None:
    manifest = job(pod={"restartPolicy": policy})
    assert errors(manifest) == [
        ("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"')
    ]


def test_on_failure_and_a_failure_policy_exclude_each_other() -> None:
    ((path, message),) = errors(job({"podFailurePolicy": FAIL_POLICY}, pod={"restartPolicy": "OnFailure"}))
    assert path == "spec.template.spec.restartPolicy"
    assert message == 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'


def test_errors_of_the_pod_template_have_its_path() -> None:
    ((path, _),) = errors(job(pod={"containers": [{"name": "Main", "image": "b"}]}))
    assert path == "spec.template.spec.containers[0].name"


@pytest.mark.parametrize(
    ("name", "spec", "fine"),
    [
        ("a" * 63, {}, True),
        ("a" * 64, {}, False),
        ("a.b", {}, True),
        ("A", {}, False),
        ("a" * 61, INDEXED, True),
        ("a" * 62, INDEXED, False),
        ("a.b", INDEXED, False),
        ("a" * 62, {**INDEXED, "completions": 0}, True),
    ],
)
def test_names(name: str, spec: dict[str, Any], fine: bool) -> None:
    found = errors(job(spec, name=name))
    assert (not found) is fine
    assert all(path == "metadata.name" for path, _ in found)


@pytest.mark.parametrize(
    ("labels", "fine"),
    [
        ({"job-name": "j", "batch.kubernetes.io/job-name": "j", "app": "x"}, True),
        ({"job-name": "other"}, False),
        ({"controller-uid": "1"}, False),
        ({"batch.kubernetes.io/controller-uid": "1"}, False),
    ],
)
def test_generated_labels_cannot_be_contradicted(labels: dict[str, str], fine: bool) -> None:
    manifest = job()
    manifest["spec"]["template"]["metadata"] = {"labels": labels}
    assert (not errors(manifest)) is fine


@pytest.mark.parametrize(
    ("selector", "fine"),
    [
        ({"matchLabels": {"app": "x"}}, True),
        ({"matchLabels": {"app": "y"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
    ],
)
def test_a_manual_selector_must_match_the_template(selector: dict[str, Any], fine: bool) -> None:
    manifest = job({"manualSelector": True, "selector": selector})
    manifest["spec"]["template"] = copy.deepcopy(manifest["spec"]["template"])
    manifest["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert (not errors(manifest)) is fine


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (job(name="a.b"), "metadata.name"),
        (job(uid="1"), "metadata.uid"),
        (cron(uid="1"), "metadata.uid"),
        (job({"managedBy": "example.com/other"}), "spec.managedBy"),
        (job({**INDEXED, "backoffLimitPerIndex": 1}, pod={"restartPolicy": "OnFailure"}), "spec.backoffLimitPerIndex"),
    ],
)
def test_what_is_accepted_with_a_word(manifest: dict[str, Any], path: str) -> None:
    found = decode(manifest)
    assert not found.errors
    assert [note.path for note in found.notes] == [path]


def test_this_daemon_named_as_the_manager_is_nothing_special() -> None:
    assert not decode(job({"managedBy": "kubernetes.io/job-controller"})).notes


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"schedule": ""}, "schedule", "Required value"),
        (
            {"schedule": "TZ=UTC * * * * *"},
            "schedule",
            'Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead',
        ),
        ({"timeZone": ""}, "timeZone", 'Invalid value: "": timeZone must be nil or non-empty string'),
        ({"timeZone": "Nowhere/City"}, "timeZone", 'Invalid value: "Nowhere/City": unknown time zone Nowhere/City'),
        ({"timeZone": "../Berlin"}, "timeZone", 'Invalid value: "../Berlin": unknown time zone ../Berlin'),
        (
            {"timeZone": "local"},
            "timeZone",
            (
                'Invalid value: "local": timeZone must be an explicit time zone as defined in'
                " https://www.iana.org/time-zones"
            ),
        ),
        ({"startingDeadlineSeconds": -1}, "startingDeadlineSeconds", f"Invalid value: -1: {NOT_NEGATIVE}"),
        ({"failedJobsHistoryLimit": -1}, "failedJobsHistoryLimit", f"Invalid value: -1: {NOT_NEGATIVE}"),
        (
            {"concurrencyPolicy": "Queue"},
            "concurrencyPolicy",
            'Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"',
        ),
        (
            {"jobTemplate": {"spec": {**job()["spec"], "selector": {"matchLabels": {"a": "b"}}}}},
            "jobTemplate.spec.selector",
            'Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated',
        ),
        (
            {"jobTemplate": {"spec": {**job()["spec"], "manualSelector": True}}},
            "jobTemplate.spec.manualSelector",
            'Unsupported value: true: supported values: "nil", "false"',
        ),
        (
            {"jobTemplate": {"spec": job({"parallelism": -2})["spec"]}},
            "jobTemplate.spec.parallelism",
            f"Invalid value: -2: {NOT_NEGATIVE}",
        ),
    ],
)
def test_what_is_refused_in_a_cronjob(spec: dict[str, Any], path: str, message: str) -> None:
    assert errors(cron(spec)) == [(f"spec.{path}", message)]


@pytest.mark.parametrize(("length", "fine"), [(52, True), (53, False)])
def test_a_cronjobs_name_leaves_room_for_the_minute(length: int, fine: bool) -> None:
    assert (not errors(cron(name="c" * length))) is fine


def test_zones_load_by_name() -> None:
    assert not errors(cron({"timeZone": "Europe/Berlin"}))
    assert not errors(cron({"timeZone": "Etc/GMT+5"}))


def test_zones_load_on_a_host_that_has_no_files_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    zoneinfo.reset_tzpath(())
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert load_zone("Europe/Berlin").utcoffset(datetime(2026, 7, 1, tzinfo=UTC)) == timedelta(hours=2)
        monkeypatch.setenv("TZ", ":America/Caracas")
        assert str(local_zone()) == "America/Caracas"
        with pytest.raises(ZoneError):
            load_zone("Nowhere/City")
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()
