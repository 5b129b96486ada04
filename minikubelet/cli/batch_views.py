"""What the tables of `get` read of Jobs and CronJobs; tolerant like `views`."""

from __future__ import annotations

from typing import Any

from minikubelet.cli.views import Condition, Meta, View


class TemplateContainer(View, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""


class TemplateSpec(View, frozen=True, kw_only=True):
    containers: tuple[TemplateContainer, ...] = ()


class Template(View, frozen=True, kw_only=True):
    spec: TemplateSpec = TemplateSpec()


class Selector(View, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Any, ...] = ()


class JobSpec(View, frozen=True, kw_only=True):
    completions: int | None = None
    parallelism: int | None = None
    selector: Selector | None = None
    template: Template = Template()


class JobStatus(View, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    succeeded: int = 0


class Job(View, frozen=True, kw_only=True):
    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(View, frozen=True, kw_only=True):
    spec: JobSpec = JobSpec()


class CronJobSpec(View, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()


class CronJobStatus(View, frozen=True, kw_only=True):
    active: tuple[Any, ...] = ()
    last_schedule_time: str | None = None


class CronJob(View, frozen=True, kw_only=True):
    metadata: Meta = Meta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
