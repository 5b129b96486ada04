"""What is remembered of Jobs and CronJobs: the records that `jobs/` decides upon and `store.jobs` keeps (JOBS 12).

Plain values. All times are unix seconds as float; None means "not yet".
"""

from __future__ import annotations

import enum

import msgspec

from minikubelet.api.batch import CronJob, Job
from minikubelet.api.index_set import NO_INDEXES, IndexSet
from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus


class Outcome(enum.Enum):
    """What a Job's books say about one pod. Written once and never changed (JOBS 1)."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    #: Failed, but an Ignore rule matched.
    IGNORED = "ignored"
    #: Stopped on purpose: counts nowhere.
    DROPPED = "dropped"


class Mark(enum.Enum):
    """Why a pod was marked for deletion."""

    SUSPENDED = "Suspended"
    #: More pods than wanted: parallelism was lowered, an index is out of range or has two pods.
    SURPLUS = "Surplus"
    JOB_FAILED = "JobFailed"
    JOB_SUCCEEDED = "JobSucceeded"
    JOB_REMOVED = "JobRemoved"
    JOB_REPLACED = "JobReplaced"
    #: By a person's command, not by the Job.
    OPERATOR = "Operator"
    #: By the host: pressure or shutdown.
    HOST = "Host"


class JobState(enum.Enum):
    CURRENT = "current"
    #: An edit of an immutable field: a new generation follows when all pods are gone.
    REPLACED = "replaced"
    #: Removed from the folder or by its CronJob.
    REMOVED = "removed"
    #: Removed by its TTL; its file may stay.
    EXPIRED = "expired"
    #: What is left of an expired one while its file stays: the same content never runs again.
    TOMBSTONE = "tombstone"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str
    message: str
    at: float


class IndexRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An index that failed: the counts of its next pod, and when its last pod ended (JOBS 7.3)."""

    failures: int
    ignored: int
    finished_at: float


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a Job: the same uid from its acceptance until it is replaced or removed."""

    uid: str
    #: The defaulted Job as the folder, or its CronJob, has it now.
    job: Job
    created_at: float
    #: The file that defines it; empty for a CronJob's.
    file: str = ""
    #: The uid of the CronJob that made it.
    owner: str = ""
    generation: int = 1
    state: JobState = JobState.CURRENT
    #: `minikubelet job suspend` and `resume`: wins over `spec.suspend` until the manifest changes.
    suspend: bool | None = None
    start_time: float | None = None
    completion_time: float | None = None
    #: Outcomes `succeeded`; what an Indexed Job shows is the size of `completed`.
    succeeded_pods: int = 0
    failed: int = 0
    completed: IndexSet = NO_INDEXES
    failed_indexes: IndexSet = NO_INDEXES
    conditions: tuple[Condition, ...] = ()
    #: Finish times of the failures since the last success, ascending: the back-off's n is how many (JOBS 7.2).
    failure_times: tuple[float, ...] = ()
    #: When the last pod to succeed finished.
    success_time: float = 0.0
    indexes: dict[int, IndexRecord] = {}

    @property
    def name(self) -> str:
        return self.job.metadata.name

    @property
    def namespace(self) -> str:
        return self.job.metadata.namespace

    @property
    def suspended(self) -> bool:
        return self.job.spec.suspend if self.suspend is None else self.suspend

    def condition(self, kind: str) -> Condition | None:
        """The condition of a type if it is True."""
        return next((c for c in self.conditions if c.type == kind and c.status == "True"), None)

    @property
    def finished(self) -> Condition | None:
        return self.condition("Complete") or self.condition("Failed")


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a Job. `status` and `finish_times` are what was last seen of it and are never stored."""

    uid: str
    job_uid: str
    namespace: str
    name: str
    created_at: float
    index: int | None = None
    #: Annotations job-index-failure-count and job-index-ignored-failure-count.
    failures: int = 0
    ignored: int = 0
    #: The Pod as it was made; None once it is no longer needed.
    pod: Pod | None = None
    mark: Mark | None = None
    marked_at: float | None = None
    outcome: Outcome | None = None
    outcome_at: float | None = None
    #: Its last phase, once it has ended.
    phase: str = ""
    #: `name: exit code` of its containers, once it has ended.
    exit_codes: dict[str, int] = {}
    #: Its index was cut off by lowering completions: its success counts no more (JOBS 6).
    cut: bool = False
    #: Nothing of it is left on the host.
    gone: bool = False
    status: PodStatus = PodStatus()
    #: When each container's last run ended, by container name, with the runtime's precision.
    finish_times: dict[str, float] = {}

    @property
    def ended(self) -> bool:
        """Terminal, or nothing left of it."""
        return self.gone or bool(self.phase) or self.status.phase in ("Succeeded", "Failed")

    @property
    def live(self) -> bool:
        return self.mark is None and not self.ended

    @property
    def terminating(self) -> bool:
        return self.mark is not None and not self.ended


class CronRecord(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    cron: CronJob
    created_at: float
    #: Before this moment nothing is caught up: the last edit of the schedule or its zone (JOBS 14).
    reference_at: float
    file: str = ""
    removed: bool = False
    last_schedule_time: float | None = None
    last_successful_time: float | None = None

    @property
    def name(self) -> str:
        return self.cron.metadata.name

    @property
    def namespace(self) -> str:
        return self.cron.metadata.namespace
