"""Rows of `get jobs` and `get cronjobs` (tables.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from minikubelet.cli import batch_printers
from minikubelet.cli.batch_views import CronJob, Job

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}


def job(
    *conditions: str, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: Any
) -> Job:
    true = [{"type": kind, "status": "True"} for kind in conditions]
    given = {
        "metadata": {"name": "j", "creationTimestamp": "2026-01-01T11:55:00Z", **metadata},
        "spec": {"completions": 3, "parallelism": 1, "template": TEMPLATE, **(spec or {})},
        "status": {"conditions": true, **(status or {})},
    }
    return msgspec.convert(given, Job)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (job(), "Running"),
        (job("SuccessCriteriaMet", "Complete"), "Complete"),
        (job("FailureTarget", "Failed"), "Failed"),
        (job("Suspended"), "Suspended"),
        (job("FailureTarget"), "FailureTarget"),
        (job("SuccessCriteriaMet"), "SuccessCriteriaMet"),
        (job("Suspended", deletionTimestamp="2026-01-01T11:59:00Z"), "Terminating"),
        (job("Complete", deletionTimestamp="2026-01-01T11:59:00Z"), "Complete"),
    ],
)
def test_status_is_the_first_that_is_true(found: Job, expected: str) -> None:
    assert batch_printers.job_status(found) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "2/3"),
        ({"completions": None}, "2/1"),
        ({"completions": None, "parallelism": 4}, "2/1 of 4"),
    ],
)
def test_completions(spec: dict[str, Any], expected: str) -> None:
    row = batch_printers.job_row(job(spec=spec, status={"succeeded": 2}), now=NOW, wide=False)
    assert row == ("j", "Running", expected, "", "5m")


def test_duration_ends_with_the_job() -> None:
    running = job(status={"startTime": "2026-01-01T11:58:30Z"})
    done = job(status={"startTime": "2026-01-01T11:58:30Z", "completionTime": "2026-01-01T11:59:00Z"})
    assert batch_printers.job_row(running, now=NOW, wide=False)[3] == "90s"
    assert batch_printers.job_row(done, now=NOW, wide=False)[3] == "30s"


def test_wide_rows_add_containers_images_and_selector() -> None:
    found = job(spec={"selector": {"matchLabels": {"b": "2", "a": "1"}}})
    assert batch_printers.job_row(found, now=NOW, wide=True)[5:] == ("a,b", "x:1,y:2", "a=1,b=2")
    assert len(batch_printers.JOB_WIDE_COLUMNS) == 8


def test_cronjobs() -> None:
    bare: dict[str, Any] = {
        "metadata": {"name": "c", "creationTimestamp": "2026-01-01T11:00:00Z"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    }
    row = batch_printers.cronjob_row(msgspec.convert(bare, CronJob), now=NOW, wide=True)
    assert row == ("c", "* * * * *", "<none>", "False", "0", "<none>", "60m", "a,b", "x:1,y:2", "<none>")
    bare["spec"] |= {"timeZone": "Europe/Berlin", "suspend": True}
    bare["status"] = {"active": [{}, {}], "lastScheduleTime": "2026-01-01T11:59:00Z"}
    row = batch_printers.cronjob_row(msgspec.convert(bare, CronJob), now=NOW, wide=False)
    assert row == ("c", "* * * * *", "Europe/Berlin", "True", "2", "60s", "60m")
    assert len(batch_printers.CRONJOB_COLUMNS) == len(row)
