"""When a Job may try again after failures (JOBS 7.2 and 7.3).

Not the back-off of crashing containers (`lifecycle.backoff`): here the delay follows from how many pods failed since
the last success, and runs from the moment the last of them finished.
"""

from __future__ import annotations

import bisect

import msgspec

from minikubelet.store.job_records import IndexRecord, JobRecord

#: More failures than this make no longer delay, whatever the settings.
_MOST_KEPT = 64


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. Other values than the defaults are for tests."""

    backoff_base: float = 10.0
    backoff_cap: float = 600.0


def delay(failures: int, settings: Settings) -> float:
    """Seconds before the next pod after `failures` pods that failed; none after none."""
    if failures <= 0:
        return 0.0
    return min(settings.backoff_base * 2.0 ** min(failures - 1, _MOST_KEPT), settings.backoff_cap)


def held_until(job: JobRecord, settings: Settings) -> float:
    """Before this moment the Job makes no new pod (without backoffLimitPerIndex)."""
    if not job.failure_times:
        return 0.0
    return job.failure_times[-1] + delay(len(job.failure_times), settings)


def index_held_until(index: IndexRecord | None, settings: Settings) -> float:
    """Before this moment an index gets no new pod (with backoffLimitPerIndex)."""
    return 0.0 if index is None else index.finished_at + delay(index.failures + index.ignored, settings)


def with_failure(job: JobRecord, finished_at: float) -> JobRecord:
    """After one more failed (or ignored) pod. One that finished before the last success does not count."""
    if finished_at <= job.success_time:
        return job
    times = list(job.failure_times)
    bisect.insort(times, finished_at)
    return msgspec.structs.replace(job, failure_times=tuple(times[-_MOST_KEPT:]))


def with_success(job: JobRecord, finished_at: float) -> JobRecord:
    """After one more succeeded pod: only failures that finished after it still count."""
    success = max(job.success_time, finished_at)
    later = tuple(at for at in job.failure_times if at > success)
    return msgspec.structs.replace(job, failure_times=later, success_time=success)
