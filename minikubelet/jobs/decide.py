"""The decision pass of a Job: a pure function of its record, its pods and the time (JOBS 5).

`worker` calls `decide` until nothing changes any more, and commits each answer as one transaction before acting on it.
One answer counts at most one pod that ended by itself, the one that finished first: so results do not depend on how
many pods were found ended at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from minikubelet.api.batch import is_indexed, managed_here
from minikubelet.jobs.adjust import NewPod, missing_pods, surplus_pods
from minikubelet.jobs.backoff import Settings
from minikubelet.jobs.counting import count, due_outcome, ended, succeeded
from minikubelet.jobs.moments import finish_time, restarts
from minikubelet.jobs.policies import judge_success
from minikubelet.lifecycle.actions import Event
from minikubelet.store.job_records import Condition, JobRecord, JobState, Mark, Outcome, PodRecord

FAILURE_TARGET, SUCCESS_CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
_BACKOFF = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = ("DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES = (
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
_FAILED_INDEXES = ("FailedIndexes", "Job has failed indexes")
_COMPLETED = ("CompletionsReached", "Reached expected number of succeeded pods")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What one transaction writes: `pods` are those whose record changed, `create` are pods to be made."""

    job: JobRecord
    pods: tuple[PodRecord, ...] = ()
    create: tuple[NewPod, ...] = ()
    events: tuple[Event, ...] = ()
    #: When to decide again if nothing happens before.
    wake_at: float | None = None
    changed: bool = False


def decide(job: JobRecord, pods: Sequence[PodRecord], *, now: float, settings: Settings) -> Decision:
    """`pods` are those of the Job that are not gone or have no outcome yet; others may be left out."""
    if job.state is not JobState.CURRENT or job.finished is not None or not managed_here(job.job.spec):
        return Decision(job=job)
    return _Pass(job, pods, now=now, settings=settings).run()


class _Pass:
    """One pass: the job and the pods as they become."""

    def __init__(self, job: JobRecord, pods: Sequence[PodRecord], *, now: float, settings: Settings) -> None:
        self._before = job
        self._job = job
        self._pods = {pod.uid: pod for pod in pods}
        self._touched: dict[str, PodRecord] = {}
        self._create: tuple[NewPod, ...] = ()
        self._events: list[Event] = []
        self._wakes: list[float] = []
        self._now = now
        self._settings = settings
        self._fail_job: str | None = None

    def run(self) -> Decision:
        if self._job.start_time is None and not self._job.suspended:
            self._job = replace(self._job, start_time=self._now)
        self._note_ends()
        more = self._count_one()
        self._aim()
        target = self._interim()
        if target is not None:
            self._end_pods(target)
        elif not more:
            self._adjust()
        if not more:
            self._finish()
        changed = self._job != self._before or bool(self._touched) or bool(self._create)
        return Decision(
            job=self._job,
            pods=tuple(self._touched.values()),
            create=self._create,
            events=tuple(self._events),
            wake_at=min(self._wakes, default=None),
            changed=changed,
        )

    # ---- outcomes ----------------------------------------------------------------
    def _note_ends(self) -> None:
        """Pods that were counted before they ended: how they ended is kept all the same."""
        for pod in list(self._pods.values()):
            if pod.outcome is not None and pod.ended and not pod.phase:
                self._touch(ended(pod))

    def _count_one(self) -> bool:
        """Count the pod that came to its end first. Returns whether another one waits to be counted."""
        due = []
        for pod in self._pods.values():
            outcome = due_outcome(pod, self._job.job.spec)
            if outcome is not None:
                due.append((finish_time(pod), pod.name, pod, outcome))
        if due:
            _, _, pod, outcome = min(due, key=lambda each: each[:2])
            self._enter(pod, outcome)
        return len(due) > 1

    def _enter(self, pod: PodRecord, outcome: Outcome) -> None:
        self._job, pod, message = count(self._job, pod, outcome, now=self._now)
        self._fail_job = self._fail_job or message
        self._touch(pod)

    def _touch(self, pod: PodRecord) -> None:
        self._pods[pod.uid] = self._touched[pod.uid] = pod

    def _stop(self, pod: PodRecord, mark: Mark) -> PodRecord:
        self._event("Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return replace(pod, mark=mark, marked_at=self._now)

    # ---- how it is to end --------------------------------------------------------
    def _interim(self) -> Condition | None:
        return self._job.condition(SUCCESS_CRITERIA_MET) or self._job.condition(FAILURE_TARGET)

    def _aim(self) -> None:
        """Step 2: failure before success, and the reasons in this order."""
        if self._interim() is not None:
            return
        if (failure := self._failure()) is not None:
            self._set(FAILURE_TARGET, "True", *failure)
        elif is_indexed(self._job.job.spec):
            rule = judge_success(self._job.job.spec.success_policy, self._job.completed)
            if rule is not None:
                self._set(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", f"Matched rules at index {rule}")

    def _failure(self) -> tuple[str, str] | None:
        job, spec = self._job, self._job.job.spec
        if self._fail_job is not None:
            return "PodFailurePolicy", self._fail_job
        if job.failed > (spec.backoff_limit or 0) or self._restarted_too_often():
            return _BACKOFF
        if spec.active_deadline_seconds is not None and not job.suspended and job.start_time is not None:
            deadline = job.start_time + spec.active_deadline_seconds
            if self._now >= deadline:
                return _DEADLINE
            self._wakes.append(deadline)
        if spec.backoff_limit_per_index is not None:
            failed = len(job.failed_indexes)
            if spec.max_failed_indexes is not None and failed > spec.max_failed_indexes:
                return _TOO_MANY_INDEXES
            if failed and failed + len(job.completed) >= (spec.completions or 0):
                return _FAILED_INDEXES
        return None

    def _restarted_too_often(self) -> bool:
        """JOBS 7.4. So limits 0 and 1 act alike."""
        spec = self._job.job.spec
        if spec.template.spec.restart_policy != "OnFailure":
            return False
        total = sum(restarts(pod) for pod in self._pods.values() if not pod.ended)
        return total >= max(spec.backoff_limit or 0, 1)

    def _end_pods(self, target: Condition) -> None:
        """An interim condition stands: what still runs is stopped, and its outcome is settled (JOBS 4)."""
        failing = target.type == FAILURE_TARGET
        mark = Mark.JOB_FAILED if failing else Mark.JOB_SUCCEEDED
        for pod in list(self._pods.values()):
            if pod.ended:
                continue
            marked = self._stop(pod, mark) if pod.mark is None else pod
            if marked.outcome is None:
                default = Outcome.FAILED if failing else Outcome.DROPPED
                self._enter(marked, due_outcome(pod, self._job.job.spec) or default)
            elif marked is not pod:
                self._touch(marked)

    # ---- how many run ------------------------------------------------------------
    def _adjust(self) -> None:
        live = [pod for pod in self._pods.values() if pod.live]
        active = len(live)
        if self._job.suspended:
            for pod in live:
                self._enter(self._stop(pod, Mark.SUSPENDED), Outcome.DROPPED)
            active = 0
        else:
            surplus = surplus_pods(self._job, live)
            for pod in surplus:
                self._enter(self._stop(pod, Mark.SURPLUS), Outcome.DROPPED)
            active -= len(surplus)
            if not surplus:
                terminating = [pod for pod in self._pods.values() if pod.terminating]
                self._create, wake_at = missing_pods(
                    self._job, live, terminating, now=self._now, settings=self._settings
                )
                active += len(self._create)
                if wake_at is not None:
                    self._wakes.append(wake_at)
        if self._complete(active):
            self._set(SUCCESS_CRITERIA_MET, "True", *_COMPLETED)
            self._end_pods(self._job.conditions[-1])
        else:
            self._suspend_or_resume()

    def _complete(self, active: int) -> bool:
        completions, done = self._job.job.spec.completions, succeeded(self._job)
        if active:
            return False
        if completions is None:
            return done > 0
        if done > completions:
            self._event(
                "Warning", "TooManySucceededPods", "Too many succeeded pods running after completion count reached"
            )
        return done >= completions

    def _suspend_or_resume(self) -> None:
        known = next((c for c in self._job.conditions if c.type == "Suspended"), None)
        if self._job.suspended and (known is None or known.status != "True"):
            self._set("Suspended", "True", "JobSuspended", "Job suspended")
            self._job = replace(self._job, start_time=None)
            self._event("Normal", "Suspended", "Job suspended")
        elif not self._job.suspended and known is not None and known.status == "True":
            self._set("Suspended", "False", "JobResumed", "Job resumed")
            self._job = replace(self._job, start_time=self._now)
            self._event("Normal", "Resumed", "Job resumed")

    # ---- the end -----------------------------------------------------------------
    def _finish(self) -> None:
        """Step 4: the terminal condition repeats the interim one once nothing is left that has to stop."""
        target = self._interim()
        if target is None or any(pod.terminating for pod in self._pods.values()):
            return
        if target.type == SUCCESS_CRITERIA_MET:
            at = max(self._now, self._job.start_time or self._now)
            self._set("Complete", "True", target.reason, target.message, at=at)
            self._job = replace(self._job, completion_time=at)
            self._event("Normal", "Completed", "Job completed")
        else:
            self._set("Failed", "True", target.reason, target.message)
            self._event("Warning", target.reason, target.message)

    def _set(self, kind: str, status: str, reason: str, message: str, *, at: float | None = None) -> None:
        new = Condition(type=kind, status=status, reason=reason, message=message, at=self._now if at is None else at)
        kinds = [condition.type for condition in self._job.conditions]
        if kind in kinds:
            conditions = tuple(new if condition.type == kind else condition for condition in self._job.conditions)
        else:
            conditions = (*self._job.conditions, new)
        self._job = replace(self._job, conditions=conditions)

    def _event(self, kind: str, reason: str, message: str) -> None:
        self._events.append(Event(type=kind, reason=reason, message=message))
