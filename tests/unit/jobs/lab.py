"""A laboratory for Jobs: the real controller and the real books, a pretended pods' room, virtual time.

Pods live in `FakeRunner` and outlive the daemon, as containers do. `Lab.kill` ends the daemon between two steps of the
event loop; `Lab.start` begins another one on the same books.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, TypeVar

import msgspec

from minikubelet.api.batch import CronJob, Job
from minikubelet.api.decode import decode_file
from minikubelet.api.pod import Pod, is_sidecar
from minikubelet.api.status import (
    ContainerState,
    ContainerStatus,
    PodCondition,
    PodStatus,
    StateRunning,
    StateTerminated,
)
from minikubelet.jobs.backoff import Settings
from minikubelet.jobs.commands import JobCommands
from minikubelet.jobs.controller import JobController
from minikubelet.jobs.roster import Key, Manifest
from minikubelet.jobs.runner import Seen, Subscriber
from minikubelet.lifecycle.times import rfc3339
from minikubelet.store import jobs as books
from minikubelet.store.durable import Work, commit_all
from minikubelet.store.schema import migrate

T = TypeVar("T")
EPOCH = 1_700_000_000.0


@dataclass
class Script:
    """What a pod does: seconds until it runs, seconds of work, the exit code of its main container, and its manners."""

    work: float = 1.0
    code: int = 0
    start: float = 0.0
    #: Seconds from a stop (or from main's end, for the sidecar) to the end of everything.
    stopping: float = 0.0
    code_when_stopped: int = 143
    sidecar_code: int = 0
    #: OnFailure: codes of the runs before the last one.
    earlier: tuple[int, ...] = ()
    #: A sidecar that crashes every so many seconds.
    sidecar_crash_every: float | None = None


Program = Callable[[Pod], Script]


@dataclass
class FakePod:
    pod: Pod
    script: Script
    status: PodStatus = field(default_factory=PodStatus)
    finish_times: dict[str, float] = field(default_factory=dict)
    stopping: bool = False
    removing: bool = False
    restarts: int = 0
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class FakeRunner:
    def __init__(self, program: Program, clock: Callable[[], float]) -> None:
        self.program = program
        self.clock = clock
        self.pods: dict[str, FakePod] = {}
        #: Every pod that was ever started, in order.
        self.started: list[Pod] = []
        self.start_times: dict[str, float] = {}
        self.logs: set[str] = set()
        #: What must never be asked of it, and was. (Raised, it would only make a worker begin again.)
        self.wrong: list[str] = []
        self._subscribers: list[Subscriber] = []

    # ---- PodRunner ---------------------------------------------------------------
    def start(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if uid in self.pods:
            return
        if uid in self.start_times:
            self.wrong.append(f"{pod.metadata.name} runs again after it is gone")
            return
        fake = self.pods[uid] = FakePod(pod, self.program(pod))
        self.started.append(pod)
        self.start_times[uid] = self.clock()
        self.logs.add(uid)
        self._later(fake, fake.script.start, lambda: self._run(fake))

    def keep(self, pod: Pod) -> None:
        pass

    def stop(self, uid: str) -> None:
        fake = self.pods.get(uid)
        if fake is not None and not fake.stopping:
            fake.stopping = True
            self._cancel(fake)
            self._later(fake, fake.script.stopping, lambda: self._end(fake, fake.script.code_when_stopped))

    def remove(self, uid: str) -> None:
        fake = self.pods.get(uid)
        if fake is None or fake.removing:
            return
        fake.removing = True
        if fake.status.phase in ("Succeeded", "Failed"):
            self._later(fake, 0, lambda: self._gone(fake))
        elif not fake.stopping:
            self.stop(uid)

    def seen(self, uid: str) -> Seen | None:
        fake = self.pods.get(uid)
        return None if fake is None else Seen(status=fake.status, finish_times=dict(fake.finish_times))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    async def observed(self, uid: str) -> None:
        assert uid
        await asyncio.sleep(0)

    # ---- what pods do ------------------------------------------------------------
    def _later(self, fake: FakePod, delay: float, what: Callable[[], None]) -> None:
        fake.timers.append(asyncio.get_running_loop().call_later(delay, what))

    def _cancel(self, fake: FakePod) -> None:
        for timer in fake.timers:
            timer.cancel()
        fake.timers.clear()

    def _run(self, fake: FakePod) -> None:
        self._show(fake, "Running", ready=True)
        if fake.script.sidecar_crash_every is not None:
            self._later(fake, fake.script.sidecar_crash_every, lambda: self._sidecar_crashes(fake))
        self._later(fake, fake.script.work, lambda: self._main_ends(fake))

    def _sidecar_crashes(self, fake: FakePod) -> None:
        fake.restarts += 1
        self._show(fake, "Running", ready=True)
        self._later(fake, fake.script.sidecar_crash_every or 1.0, lambda: self._sidecar_crashes(fake))

    def _main_ends(self, fake: FakePod) -> None:
        if fake.restarts < len(fake.script.earlier) and fake.script.sidecar_crash_every is None:
            fake.restarts += 1
            self._show(fake, "Running", ready=True)
            self._later(fake, fake.script.work, lambda: self._main_ends(fake))
            return
        fake.finish_times[fake.pod.spec.containers[0].name] = self.clock()
        has_sidecar = any(is_sidecar(each) for each in fake.pod.spec.init_containers)
        if has_sidecar and fake.script.stopping:
            self._show(fake, "Running", ready=False, main_code=fake.script.code)
            self._later(fake, fake.script.stopping, lambda: self._end(fake, fake.script.code))
        else:
            self._end(fake, fake.script.code)

    def _end(self, fake: FakePod, code: int) -> None:
        self._cancel(fake)
        for container in fake.pod.spec.containers:
            fake.finish_times.setdefault(container.name, self.clock())
        for container in fake.pod.spec.init_containers:
            fake.finish_times[container.name] = self.clock()
        self._show(fake, "Succeeded" if code == 0 else "Failed", ready=False, main_code=code, over=True)
        if fake.removing:
            self._later(fake, 0, lambda: self._gone(fake))

    def _gone(self, fake: FakePod) -> None:
        uid = fake.pod.metadata.uid
        self.pods.pop(uid, None)
        self.logs.discard(uid)
        self._tell(uid)

    def _show(
        self, fake: FakePod, phase: str, *, ready: bool, main_code: int | None = None, over: bool = False
    ) -> None:
        running = ContainerState(running=StateRunning())
        main = running if main_code is None else ContainerState(terminated=StateTerminated(exit_code=main_code))
        side = ContainerState(terminated=StateTerminated(exit_code=fake.script.sidecar_code)) if over else running
        crashing = fake.script.sidecar_crash_every is not None
        old = next((c for c in fake.status.conditions if c.type == "Ready"), None)
        at = rfc3339(self.clock())
        if old is not None and old.status == str(ready) and old.last_transition_time is not None:
            at = old.last_transition_time
        fake.status = PodStatus(
            phase=phase,
            conditions=(PodCondition(type="Ready", status=str(ready), last_transition_time=at),),
            container_statuses=tuple(
                ContainerStatus(name=c.name, state=main, ready=ready, restart_count=0 if crashing else fake.restarts)
                for c in fake.pod.spec.containers
            ),
            init_container_statuses=tuple(
                ContainerStatus(name=c.name, state=side, restart_count=fake.restarts if crashing else 0)
                for c in fake.pod.spec.init_containers
            ),
        )
        self._tell(fake.pod.metadata.uid)

    def _tell(self, uid: str) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(uid)


class Killed(BaseException):
    """The daemon dies in the middle of a transaction."""


class Lab:
    """Use `lab`."""

    def __init__(self, program: Program, *, settings: Settings, seed: int, local_zone: tzinfo, epoch: float) -> None:
        self._epoch = epoch
        self._opened = asyncio.get_running_loop().time()
        self.runner = FakeRunner(program, self.clock)
        self.connection = sqlite3.connect(":memory:", isolation_level="IMMEDIATE")
        self.connection.execute("PRAGMA foreign_keys = ON")
        migrate(self.connection, path="memory")
        self.manifests: dict[str, tuple[Job | CronJob, ...]] = {}
        #: Called before each commit and after it; may raise Killed.
        self.interrupt: Callable[[str], None] = lambda _when: None
        self.commits = 0
        self._settings = settings
        self._random = random.Random(seed)  # noqa: S311
        self._local_zone = local_zone
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self.controller: JobController

    def clock(self) -> float:
        return self._epoch + asyncio.get_running_loop().time() - self._opened

    @property
    def now(self) -> float:
        return self.clock() - self._epoch

    # ---- the daemon --------------------------------------------------------------
    async def start(self) -> None:
        """Begin a daemon; one that is killed while it begins is begun again."""
        while not self.alive:
            self._ready = asyncio.Event()
            self._task = asyncio.create_task(self._daemon(), name="daemon")
            self._task.add_done_callback(lambda _: self._ready.set())
            await self._ready.wait()
            if not self.alive:
                with contextlib.suppress(Killed, BaseExceptionGroup):
                    await self._task

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _daemon(self) -> None:
        self.controller = JobController(
            transact=self._transact,
            runner=self.runner,
            node_name="node",
            settings=self._settings,
            clock=self.clock,
            draw=self._random.choice,
            local_zone=self._local_zone,
        )
        with contextlib.suppress(Killed):
            await self.controller.load()
            self._apply()
            async with self.controller.serve():
                self._ready.set()
                await asyncio.Event().wait()

    async def _transact(self, work: Work[T]) -> T:
        await asyncio.sleep(0)
        self.interrupt("before")
        (result,) = commit_all(self.connection, [work])
        self.commits += 1
        if isinstance(error := getattr(result, "error", None), BaseException):
            raise error
        self.interrupt("after")
        answer: T = result
        return answer

    async def kill(self) -> None:
        """As SIGKILL: nothing is written, no pod is touched."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Killed, BaseExceptionGroup):
                await self._task
            self._task = None

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    # ---- the folder --------------------------------------------------------------
    def put(self, text: str, *, file: str = "job.yaml") -> None:
        """A file with this content; what is wrong with it fails the test."""
        decoded = decode_file(file, text.encode(), node_name="node")
        assert not decoded.errors, [str(error) for error in decoded.errors]
        self.manifests[file] = decoded.objects
        self._apply()

    def remove(self, file: str = "job.yaml") -> None:
        del self.manifests[file]
        self._apply()

    def _apply(self) -> None:
        jobs: dict[Key, Manifest] = {}
        crons: dict[Key, Manifest] = {}
        for file, objects in self.manifests.items():
            for obj in objects:
                kind: dict[Key, Manifest] = jobs if isinstance(obj, Job) else crons
                kind[Key(obj.metadata.namespace, obj.metadata.name)] = Manifest(obj, file)
        self.controller.apply(jobs=jobs, crons=crons)

    # ---- seeing ------------------------------------------------------------------
    async def until(self, moment: float) -> None:
        """Let time pass until `moment` seconds after the lab was opened, and everything due then has happened."""
        await asyncio.sleep(max(0.0, moment - self.now))
        for _ in range(50):
            await asyncio.sleep(0)

    def job(self, name: str = "j") -> Job:
        return next(job for job in self.controller.roster.shown_jobs() if job.metadata.name == name)

    def names(self) -> list[str]:
        return [job.metadata.name for job in self.controller.roster.shown_jobs()]

    def conditions(self, name: str = "j") -> list[tuple[str, str]]:
        """Type and reason, in order; `!` before those that are False."""
        status = self.job(name).status
        assert status is not None
        return [(("" if c.status == "True" else "!") + c.type, c.reason) for c in status.conditions]

    def counts(self, name: str = "j") -> dict[str, int]:
        status = self.job(name).status
        assert status is not None
        return {
            field: getattr(status, field) or 0 for field in ("active", "ready", "terminating", "succeeded", "failed")
        }

    def books(self) -> books.Books:
        return books.load(self.connection)

    def events(self, uid: str) -> list[str]:
        return [event.reason for event in books.events_of(self.connection, uid)]

    @property
    def commands(self) -> JobCommands:
        return JobCommands(self.controller)

    @property
    def live(self) -> list[Pod]:
        return [f.pod for f in self.runner.pods.values() if f.status.phase in ("Pending", "Running")]


@contextlib.asynccontextmanager
async def lab(
    program: Program | Script | None = None,
    *,
    base: float = 10.0,
    seed: int = 1,
    local_zone: tzinfo = UTC,
    epoch: float = EPOCH,
) -> AsyncIterator[Lab]:
    """`base`: of the back-off, in seconds."""
    script = program if isinstance(program, Script) else Script()
    runs: Program = program if callable(program) else lambda _pod: script
    here = Lab(runs, settings=Settings(backoff_base=base), seed=seed, local_zone=local_zone, epoch=epoch)
    await here.start()
    try:
        yield here
        assert not here.runner.wrong
    finally:
        await here.kill()
        for fake in here.runner.pods.values():
            for timer in fake.timers:
                timer.cancel()
        here.connection.close()


def manifest(spec: Mapping[str, Any] | None = None, *, name: str = "j", pod: Mapping[str, Any] | None = None) -> str:
    """A Job as JSON (which is YAML): its spec's fields, and fields of its pods' spec."""
    return msgspec.json.encode({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}} | {
        "spec": {**(spec or {}), "template": {"spec": pod_spec(pod)}}
    }).decode()  # fmt: skip


def cron_manifest(
    spec: Mapping[str, Any], *, job: Mapping[str, Any] | None = None, pod: Mapping[str, Any] | None = None
) -> str:
    template = {"spec": {**(job or {}), "template": {"spec": pod_spec(pod)}}}
    return msgspec.json.encode({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}} | {
        "spec": {"jobTemplate": template, **spec}
    }).decode()  # fmt: skip


def pod_spec(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {"restartPolicy": "Never", "containers": [container], **(fields or {})}


SIDECAR = {"initContainers": [{"name": "sc", "image": "busybox", "restartPolicy": "Always"}]}


def index_of(pod: Pod) -> int:
    return int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"])
