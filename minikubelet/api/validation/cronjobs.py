"""Is a defaulted CronJob one that can be run? Kubernetes' own texts (VA-1, JOBS 14). Called by `decode`."""

from __future__ import annotations

import re

from minikubelet.api.batch import ALLOW, FORBID, REPLACE, CronJob, CronJobSpec
from minikubelet.api.problems import Problem, Problems, invalid, required, unsupported
from minikubelet.api.schedule import ScheduleError, parse_schedule
from minikubelet.api.validation.jobs import job_metadata, job_spec, spec_warnings, uid_warnings
from minikubelet.api.zones import ZoneError, load_zone

#: A Job's name is the CronJob's, a dash and ten digits.
_LONGEST_NAME = 52
_ZONE = re.compile(r"[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}(/[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13})*")


def validate_cronjob(cron: CronJob, *, sidecar_containers: bool) -> list[Problem]:
    """Every problem of a defaulted CronJob, in the reference's order."""
    spec = cron.spec
    template = spec.job_template.spec
    path = "spec.jobTemplate.spec"
    problems = [
        *job_metadata(cron.metadata, kind="CronJob", longest=_LONGEST_NAME),
        *_schedule(spec),
        *_time_zone(spec),
    ]
    for name, value in (
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if value is not None and value < 0:
            problems.append(invalid(f"spec.{name}", value, "must be greater than or equal to 0"))
    if spec.concurrency_policy not in (ALLOW, FORBID, REPLACE):
        problems.append(unsupported("spec.concurrencyPolicy", spec.concurrency_policy, (ALLOW, FORBID, REPLACE)))
    problems += job_spec(template, path=path, sidecar_containers=sidecar_containers)
    if template.selector is not None:
        problems.append(invalid(f"{path}.selector", template.selector, "`selector` will be auto-generated"))
    if template.manual_selector:
        problems.append(unsupported(f"{path}.manualSelector", value=True, supported=("nil", "false")))
    return problems


def cronjob_warnings(cron: CronJob) -> list[Problem]:
    return uid_warnings(cron.metadata) + spec_warnings(cron.spec.job_template.spec, path="spec.jobTemplate.spec")


def _schedule(spec: CronJobSpec) -> Problems:
    if not spec.schedule:
        yield required("spec.schedule")
        return
    try:
        parse_schedule(spec.schedule)
    except ScheduleError as error:
        yield invalid("spec.schedule", spec.schedule, str(error))


def _time_zone(spec: CronJobSpec) -> Problems:
    zone, path = spec.time_zone, "spec.timeZone"
    if zone is None:
        return
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        yield invalid(
            path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    elif not _ZONE.fullmatch(zone) or any(part in (".", "..") for part in zone.split("/")):
        yield invalid(path, zone, f"unknown time zone {zone}")
    else:
        try:
            load_zone(zone)
        except ZoneError as error:
            yield invalid(path, zone, str(error))
