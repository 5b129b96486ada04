"""Jobs and CronJobs as `describe` shows them: lines with tab stops, in kubectl's order. Pure."""

from __future__ import annotations

from typing import Any

from minikubelet.cli import ages
from minikubelet.cli.describe_fields import NONE, UNSET, controlled_by, head, moment, notes, pairs, yes_no
from minikubelet.cli.describe_pod import template_lines


def job_lines(job: Any) -> list[str]:
    spec, status = job["spec"], job.get("status") or {}
    lines = [*head(job), f"Selector:\t{_selector(spec.get('selector'))}"]
    lines += pairs("Labels", job["metadata"].get("labels"))
    lines += notes("Annotations", job["metadata"].get("annotations"))
    lines += controlled_by(job)
    lines += [*_scale(spec), f"Completion Mode:\t{spec.get('completionMode', 'NonIndexed')}"]
    lines.append(f"Suspend:\t{yes_no(spec.get('suspend')).lower()}")
    for label, key in (
        ("Backoff Limit", "backoffLimit"),
        ("Backoff Limit Per Index", "backoffLimitPerIndex"),
        ("Max Failed Indexes", "maxFailedIndexes"),
        ("Managed By", "managedBy"),
        ("TTL Seconds After Finished", "ttlSecondsAfterFinished"),
    ):
        if spec.get(key) is not None:
            lines.append(f"{label}:\t{spec[key]}")
    start, end = ages.parse(status.get("startTime")), ages.parse(status.get("completionTime"))
    if start is not None:
        lines.append(f"Start Time:\t{moment(status['startTime'])}")
    if end is not None:
        lines.append(f"Completed At:\t{moment(status['completionTime'])}")
    if start is not None and end is not None:
        lines.append(f"Duration:\t{ages.duration((end - start).total_seconds())}")
    lines += [*_deadline(spec), f"Pods Statuses:\t{_counts(status)}"]
    if status.get("completedIndexes"):
        lines.append(f"Completed Indexes:\t{status['completedIndexes']}")
    if status.get("failedIndexes"):
        lines.append(f"Failed Indexes:\t{status['failedIndexes']}")
    if conditions := status.get("conditions"):
        rows = [f"  {it['type']}\t{it['status']}\t{it.get('reason', '')}\t{it.get('message', '')}" for it in conditions]
        lines += ["Conditions:", "  Type\tStatus\tReason\tMessage", *rows]
    return [*lines, *template_lines(spec.get("template", {}))]


def cronjob_lines(cron: Any) -> list[str]:
    spec, status = cron["spec"], cron.get("status") or {}
    job = spec.get("jobTemplate", {}).get("spec", {})
    lines = head(cron)
    lines += pairs("Labels", cron["metadata"].get("labels"))
    lines += notes("Annotations", cron["metadata"].get("annotations"))
    lines.append(f"Schedule:\t{spec.get('schedule', '')}")
    if spec.get("timeZone"):
        lines.append(f"Time Zone:\t{spec['timeZone']}")
    deadline = spec.get("startingDeadlineSeconds")
    last = status.get("lastScheduleTime")
    lines += [
        f"Concurrency Policy:\t{spec.get('concurrencyPolicy', 'Allow')}",
        f"Suspend:\t{yes_no(spec.get('suspend'))}",
        f"Successful Job History Limit:\t{spec.get('successfulJobsHistoryLimit', UNSET)}",
        f"Failed Job History Limit:\t{spec.get('failedJobsHistoryLimit', UNSET)}",
        f"Starting Deadline Seconds:\t{UNSET if deadline is None else f'{deadline}s'}",
        f"Selector:\t{_selector(job.get('selector'))}",
        *_scale(job),
        *_deadline(job),
        *template_lines(job.get("template", {})),
        f"Last Schedule Time:\t{moment(last) if last else UNSET}",
    ]
    if status.get("lastSuccessfulTime"):
        lines.append(f"Last Successful Time:\t{moment(status['lastSuccessfulTime'])}")
    active = ", ".join(each.get("name", "") for each in status.get("active", ()))
    return [*lines, f"Active Jobs:\t{active or NONE}"]


def _selector(selector: Any) -> str:
    labels = (selector or {}).get("matchLabels", {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or UNSET


def _scale(spec: Any) -> list[str]:
    def shown(key: str) -> object:
        return UNSET if spec.get(key) is None else spec[key]

    return [f"Parallelism:\t{shown('parallelism')}", f"Completions:\t{shown('completions')}"]


def _deadline(spec: Any) -> list[str]:
    seconds = spec.get("activeDeadlineSeconds")
    return [] if seconds is None else [f"Active Deadline Seconds:\t{seconds}s"]


def _counts(status: Any) -> str:
    text = f"{status.get('active', 0)} Active ({status.get('ready', 0)} Ready) / {status.get('succeeded', 0)} Succeeded"
    text += f" / {status.get('failed', 0)} Failed"
    return f"{text} / {status['terminating']} Terminating" if status.get("terminating") else text
