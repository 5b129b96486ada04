"""Jobs and CronJobs to table rows, as kubectl shows them (tables.md). Pure; `cli.get` lays the rows out."""

from __future__ import annotations

from datetime import datetime

from minikubelet.cli import ages
from minikubelet.cli.batch_views import CronJob, Job, Selector, TemplateSpec
from minikubelet.cli.printers import NONE

_WIDE = ("CONTAINERS", "IMAGES", "SELECTOR")
JOB_COLUMNS = ("NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE")
JOB_WIDE_COLUMNS = (*JOB_COLUMNS, *_WIDE)
CRONJOB_COLUMNS = ("NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE")
CRONJOB_WIDE_COLUMNS = (*CRONJOB_COLUMNS, *_WIDE)


def job_row(job: Job, *, now: datetime, wide: bool) -> tuple[str, ...]:
    row = (
        job.metadata.name,
        job_status(job),
        _completions(job),
        _duration(job, now=now),
        ages.age(job.metadata.creation_timestamp, now=now),
    )
    return (*row, *_template(job.spec.template.spec), _selector(job.spec.selector)) if wide else row


def job_status(job: Job) -> str:
    """STATUS: the first that is true."""
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if job.metadata.deletion_timestamp is not None:
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in true), "Running")


def _completions(job: Job) -> str:
    succeeded, spec = job.status.succeeded, job.spec
    if spec.completions is not None:
        return f"{succeeded}/{spec.completions}"
    parallelism = spec.parallelism or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Job, *, now: datetime) -> str:
    start, end = ages.parse(job.status.start_time), ages.parse(job.status.completion_time)
    return "" if start is None else ages.duration(((end or now) - start).total_seconds())


def cronjob_row(cron: CronJob, *, now: datetime, wide: bool) -> tuple[str, ...]:
    last = cron.status.last_schedule_time
    row = (
        cron.metadata.name,
        cron.spec.schedule,
        cron.spec.time_zone or NONE,
        str(cron.spec.suspend),
        str(len(cron.status.active)),
        ages.age(last, now=now) if last else NONE,
        ages.age(cron.metadata.creation_timestamp, now=now),
    )
    job = cron.spec.job_template.spec
    return (*row, *_template(job.template.spec), _selector(job.selector)) if wide else row


def _template(spec: TemplateSpec) -> tuple[str, str]:
    names = ",".join(container.name for container in spec.containers)
    return names, ",".join(container.image for container in spec.containers)


def _selector(selector: Selector | None) -> str:
    if selector is None:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items())) or NONE
