"""Whatever ends, is edited, deleted or killed in whatever order: what the books must always say (JOBS 4, 6, 12)."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine
from typing import Any

import looptime
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minikubelet.api.batch import is_indexed
from minikubelet.api.index_set import IndexSet
from minikubelet.api.pod import Pod
from minikubelet.store.job_records import JobRecord, JobState, Mark, Outcome, PodRecord
from tests.unit.jobs.lab import Killed, Lab, Script, lab, manifest

pytestmark = pytest.mark.timeout(120)  # many examples, each with an event loop of its own, on a busy machine

Step = tuple[str, Any]

SCRIPTS = st.lists(
    st.builds(
        Script,
        work=st.sampled_from([0.5, 1.0, 2.0, 3.5]),
        code=st.sampled_from([0, 0, 1, 5]),
        start=st.sampled_from([0.0, 0.3]),
        stopping=st.sampled_from([0.0, 0.5, 2.0]),
        code_when_stopped=st.sampled_from([0, 143]),
    ),
    min_size=4,
    max_size=12,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.25, 1.0, 3.0])),
        st.tuples(st.just("kill"), st.sampled_from([0.0, 2.0])),
        st.tuples(st.just("kill at commit"), st.tuples(st.integers(1, 3), st.sampled_from(["before", "after"]))),
        st.tuples(st.just("parallelism"), st.integers(0, 4)),
        st.tuples(st.just("scale"), st.integers(1, 5)),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("delete"), st.integers(0, 3)),
        st.tuples(st.just("backoffLimit"), st.integers(0, 6)),
        st.tuples(st.just("remove"), st.sampled_from([0.0, 0.25, 3.0])),
        st.tuples(st.just("grace"), st.integers(30, 32)),  # of the template: a new generation
    ),
    max_size=14,
)
IGNORE_FIVE = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [5]}}]}
SPECS = st.fixed_dictionaries(
    {"parallelism": st.integers(1, 4), "completions": st.integers(1, 5)},
    optional={
        "completionMode": st.just("Indexed"),
        "backoffLimit": st.integers(0, 6),
        "podReplacementPolicy": st.just("Failed"),
    },
)
PER_INDEX = st.fixed_dictionaries(
    {
        "parallelism": st.integers(1, 4),
        "completions": st.integers(1, 5),
        "completionMode": st.just("Indexed"),
        "backoffLimitPerIndex": st.integers(0, 2),
        "podReplacementPolicy": st.just("Failed"),
    },
    optional={"podFailurePolicy": st.just(IGNORE_FIVE)},
)


class Auditor:
    """Looks at the books after every commit."""

    def __init__(self, here: Lab) -> None:
        self._here = here
        self._outcomes: dict[str, Outcome] = {}
        self._finished: dict[str, JobRecord] = {}
        self._failed: dict[str, int] = {}
        self._pods: set[str] = set()
        self._kill: tuple[int, str] | None = None

    def kill_at(self, commits: int, when: str) -> None:
        self._kill = (commits, when)

    def __call__(self, when: str) -> None:
        if when == "after":
            self.look()
        if self._kill is not None and self._kill[1] == when:
            left = self._kill[0] - 1
            self._kill = (left, when) if left else None
            if not left:
                raise Killed

    def look(self) -> None:
        """What is found wrong is kept: raised here, it would only make a worker begin again."""
        try:
            self.audit()
        except AssertionError as error:
            self._here.runner.wrong.append(str(error) or repr(error.__traceback__))
            raise

    def audit(self) -> None:
        found = self._here.books()
        assert not found.unreadable
        for job in found.jobs:
            self._audit_job(job, [pod for pod in found.pods if pod.job_uid == job.uid])

    def _audit_job(self, job: JobRecord, pods: list[PodRecord]) -> None:
        for pod in pods:  # written once and never changed
            if pod.outcome is not None:
                assert self._outcomes.setdefault(pod.uid, pod.outcome) is pod.outcome
            assert pod.uid not in self._outcomes or pod.outcome is not None
        assert job.failed == sum(pod.outcome is Outcome.FAILED for pod in pods)
        assert job.failed >= self._failed.get(job.uid, 0)
        self._failed[job.uid] = job.failed
        assert job.succeeded_pods == sum(pod.outcome is Outcome.SUCCEEDED for pod in pods)
        open_pods = [pod for pod in pods if pod.outcome is None]
        if is_indexed(job.job.spec):
            done = {pod.index for pod in pods if pod.outcome is Outcome.SUCCEEDED and not pod.cut}
            assert job.completed == IndexSet.of(index for index in done if index is not None)
            assert not set(job.completed) & set(job.failed_indexes)
            held = [pod.index for pod in open_pods]
            assert len(held) == len(set(held))
        made = [pod for pod in pods if pod.uid not in self._pods]
        self._pods.update(pod.uid for pod in made)
        if made:  # never beyond parallelism, and never for a Job that is not to run
            active = sum(pod.mark is None and not pod.ended for pod in open_pods)
            assert active <= (job.job.spec.parallelism or 0)
            assert not job.suspended
            assert job.state is JobState.CURRENT
            assert job.finished is None
        kinds = {condition.type for condition in job.conditions if condition.status == "True"}
        assert not {"SuccessCriteriaMet", "FailureTarget"} <= kinds
        assert not ("Complete" in kinds and "SuccessCriteriaMet" not in kinds)
        assert not ("Failed" in kinds and "FailureTarget" not in kinds)
        if job.finished is not None:  # it can go, and be edited, but never changes what it says of itself
            assert not open_pods
            then = self._finished.setdefault(job.uid, job)
            assert msgspec.structs.replace(job, job=then.job, state=then.state) == then


def guard(here: Lab, scripts: list[Script]) -> Any:
    """The pods' program, which also looks at each start."""
    endless = itertools.cycle(scripts)

    def program(pod: Pod) -> Script:
        found = here.books()
        record = next(it for it in found.pods if it.uid == pod.metadata.uid)  # R1: intent first
        job = next(it for it in found.jobs if it.uid == record.job_uid)
        if record.index is not None and (record.index in job.completed or record.index in job.failed_indexes):
            here.runner.wrong.append(f"index {record.index} runs again")
        return next(endless)

    return program


def live(here: Lab) -> int:
    """Pods that run or are about to, and that nobody has marked."""
    return sum(
        pod.mark is None
        and pod.outcome is None
        and (seen := here.runner.seen(pod.uid)) is not None
        and seen.status.phase in ("Pending", "Running")
        for pod in here.books().pods
    )


def text(spec: dict[str, Any]) -> str:
    fields = {key: value for key, value in spec.items() if key != "grace"}
    return manifest(fields, pod={"terminationGracePeriodSeconds": spec.get("grace", 30)})


async def play(spec: dict[str, Any], scripts: list[Script], steps: list[Step]) -> None:
    async with lab(base=0.5) as here:
        here.runner.program = guard(here, scripts)
        auditor = here.interrupt = Auditor(here)
        here.put(text(spec))
        for kind, value in steps:
            await take(here, auditor, spec, kind, value)
            await here.until(here.now)
            while not here.alive:
                await here.restart()
                await here.until(here.now)
            assert not here.runner.wrong
            assert live(here) <= (0 if spec.get("suspend") else spec["parallelism"])
        spec |= {"suspend": False, "backoffLimit": 6}
        spec["parallelism"] = spec["completions"] if spec.get("completionMode") else max(1, spec["parallelism"])
        here.interrupt = lambda _: auditor.look()
        here.put(text(spec))
        await here.restart()
        await here.until(here.now + 3000)
        (job,) = here.books().jobs
        rest = f"{job} {here.books().pods} {here.runner.pods}"
        assert job.finished is not None or not any(script.code == 0 for script in scripts), rest
        left = {pod.uid for pod in here.books().pods if not pod.gone}
        assert set(here.runner.pods) == left
        assert not here.live or job.finished is None


async def take(here: Lab, auditor: Auditor, spec: dict[str, Any], kind: str, value: Any) -> None:
    match kind:
        case "wait":
            await here.until(here.now + value)
        case "kill":
            await here.kill()
            await here.until(here.now + value)
        case "kill at commit":
            auditor.kill_at(*value)
        case "delete":
            pods = [pod for pod in here.books().pods if not pod.gone]
            worker = next(iter(here.controller.roster.jobs.values()), None)
            if worker is not None and pods:
                worker.delete_pod(pods[value % len(pods)].uid, mark=Mark.OPERATOR)
        case "remove":
            here.remove()
            await here.until(here.now + value)
            here.put(text(spec))
        case "scale":
            if spec.get("completionMode"):
                spec |= {"completions": value, "parallelism": value}
                here.put(text(spec))
        case _:
            spec[kind] = value
            here.put(text(spec))


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    """An event loop of its own for each example: hypothesis and looptime's marker do not go together."""
    loop = looptime.new_event_loop(_enabled=True)
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=SPECS, scripts=SCRIPTS, steps=STEPS)
def test_the_books_hold_whatever_happens(spec: dict[str, Any], scripts: list[Script], steps: list[Step]) -> None:
    in_virtual_time(play(dict(spec), scripts, steps))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=PER_INDEX, scripts=SCRIPTS, steps=STEPS)
def test_the_books_hold_whatever_happens_to_indexes_that_fail_by_themselves(
    spec: dict[str, Any], scripts: list[Script], steps: list[Step]
) -> None:
    in_virtual_time(play(dict(spec), scripts, steps))
