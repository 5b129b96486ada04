"""A virtual runtime and worker in virtual time: plays scripted containers against the pure core.

`World` does what `pods/worker.py` does (observe, decide, act, note), with a heap of future happenings in place of a
runtime. Each decision is checked on the way: it must be idempotent, survive its way through the store, and never leave
the pod stuck.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from minikubelet.api.definition import container_hash
from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle import actions as do
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.decide import decide
from minikubelet.lifecycle.memory import KillReason, Memory, ProbeResult, StartError, StopCause
from minikubelet.lifecycle.records import Observed, ObservedContainer, ObservedSandbox, RecordState
from minikubelet.lifecycle.view import find
from tests.unit.lifecycle.build import T0

MAKE = 0.125  # seconds to create a sandbox, to start a container, to remove one
FOREVER = None


@dataclass(frozen=True)
class Life:
    """One life of a container. Seconds; None: never."""

    runs: float | None = FOREVER
    code: int = 0
    on_term: float | None = 0.0
    term_code: int = 0
    up_after: float | None = 0.0  # when the startup probe passes
    startup_fails_at: float | None = None
    dies_at: float | None = None  # when the liveness probe fails
    ready_after: float | None = 0.0
    post_start: float | None = 0.0
    post_start_fails: bool = False
    pre_stop: float | None = 0.0
    pulls: bool = True  # False: its image cannot be pulled


@dataclass
class Entry:
    """One line of the journal: what happened to whom, seconds after the beginning."""

    at: float
    name: str
    what: str


@dataclass
class Running:
    record: ObservedContainer
    life: Life
    signalled: bool = False
    hooks: set[str] = field(default_factory=set)  # keys of hooks that run in it


class World:
    def __init__(self, pod: Pod, lives: dict[str, list[Life]] | None = None, *, answer_after: float = 0.0) -> None:
        """`answer_after`: seconds from a container's start to the answer of the call, in which the daemon may die."""
        self.answer_after = answer_after
        self.pod = pod
        self.lives = lives or {}
        self.memory = Memory(accepted_at=T0)
        self.now = T0
        self._set_by = 0.0  # seconds by which the clock was set, in all
        self.journal: list[Entry] = []
        self.statuses: list[tuple[float, PodStatus]] = []
        self.events: list[tuple[float, do.Event]] = []
        self.sandboxes: list[ObservedSandbox] = []
        self.records: list[ObservedContainer] = []
        self.processes: dict[str, Running] = {}
        self.finished = False
        self.daemon = True
        self._heap: list[tuple[float, int, int, Callable[[], None]]] = []
        self._serial = 0
        self._daemon_life = 0
        self._abandonable: set[str] = set()
        self._born: dict[str, int] = {}
        self._reached: set[tuple[str, str]] = set()  # (sandbox, name) that started, completed or came up in it
        self._wake: float | None = None
        self._decide()

    # ---- time ------------------------------------------------------------------
    def at(self, seconds: float, what: Callable[[], None], *, daemon: bool = False) -> None:
        """Let it happen `seconds` from now. `daemon`: not if the daemon dies before."""
        self._serial += 1
        life = self._daemon_life if daemon else -1
        heapq.heappush(self._heap, (self.now + seconds, self._serial, life, what))

    def run(self, seconds: float | None = None) -> World:
        """Let so many seconds pass; without a number: until nothing can happen any more (at most 10000)."""
        end = self.now + (10_000 if seconds is None else seconds)
        while True:
            due = [self._heap[0][0]] if self._heap else []
            if self._wake is not None and self.daemon:
                due.append(self._wake)
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            while self._heap and self._heap[0][0] <= self.now:
                _, _, life, what = heapq.heappop(self._heap)
                if life in (-1, self._daemon_life):
                    what()
            self._decide()
        if seconds is not None:
            self.now = end
        return self

    @property
    def seconds(self) -> float:
        return self.now - T0 - self._set_by

    def set_clock(self, by: float) -> None:
        """Whoever waits already goes on waiting as long as meant; the daemon looks after 30 s, as a worker does."""
        self.now += by
        self._set_by += by
        self._heap = [(due + by, serial, life, what) for due, serial, life, what in self._heap]
        if self._wake is not None:
            self._wake += by
        self.at(30, lambda: None)

    def observed(self) -> Observed:
        return Observed(sandboxes=tuple(self.sandboxes), containers=tuple(self.records))

    # ---- the worker --------------------------------------------------------------
    def _decide(self) -> None:
        if not self.daemon:
            return
        seen = self.observed()
        was_stopping = self.memory.stopping is not None
        decision = decide(self.pod, seen, self.memory, self.now)
        self._check(seen, decision)
        self.memory = decision.memory
        if decision.memory.stopping is not None and not was_stopping:
            self._abandon()
        self.events += [(self.seconds, event) for event in decision.events]
        if not self.statuses or self.statuses[-1][1] != decision.status:
            self.statuses.append((self.seconds, decision.status))
        self._wake = decision.wake_at
        self.finished = decision.finished
        for action in decision.actions:
            self._act(action)

    def _check(self, seen: Observed, decision: do.Decision) -> None:
        memory = decision.memory
        again = decide(self.pod, seen, memory, self.now)
        assert not again.actions, again.actions
        assert not again.events, again.events
        for name in memory.__struct_fields__:
            assert getattr(again.memory, name) == getattr(memory, name), name
        assert again.status == decision.status
        if memory.stopped and not self.memory.stopped:
            self._check_ends(seen, decision.status)
        keys = [action.key for action in decision.actions]
        assert len(keys) == len(set(keys))
        assert not self.memory.in_flight & set(keys)
        stored = msgspec.json.decode(msgspec.json.encode(memory), type=Memory)
        assert stored == memory
        assert decision.wake_at is None or decision.wake_at > self.now
        runs = any(c.state is RecordState.RUNNING for c in seen.containers)
        assert memory.in_flight or decision.wake_at is not None or runs or decision.finished, "stuck"

    def _check_ends(self, seen: Observed, status: PodStatus) -> None:
        """The final status shows how each container ended."""
        for found in (*status.init_container_statuses, *status.container_statuses):
            record, end = seen.newest(found.name), found.state.terminated
            assert end is not None or record is None, found
            assert record is None or end is None or record.exit_code == end.exit_code, found
            assert not found.started
            init = find(self.pod, found.name) in self.pod.spec.init_containers and found.name not in self.sidecars()
            assert found.ready is (init and end is not None and end.exit_code == 0)

    def _abandon(self) -> None:
        for key in tuple(self._abandonable):
            self._abandonable.discard(key)
            self.memory = notes.action_finished(self.memory, key)
        self.at(0, lambda: None)

    def _note(self, note: Callable[[Memory], Memory]) -> None:
        self.memory = note(self.memory)

    def _done(self, key: str) -> None:
        self._note(partial(notes.action_finished, key=key))

    def remove(self, grace: int | None = None) -> None:
        """The manifest goes."""
        self._note(lambda m: notes.request_stop(m, self.pod, StopCause.REMOVED, self.now, grace=grace))
        self._abandon()
        self._decide()

    def edit(self, pod: Pod) -> None:
        self.pod = pod
        self._decide()

    def kill_daemon(self) -> None:
        self.daemon = False
        self._daemon_life += 1
        self._abandonable.clear()

    def start_daemon(self, *, keep_memory: bool = True) -> None:
        stored = msgspec.json.encode(msgspec.structs.replace(self.memory, in_flight=frozenset()))
        kept = notes.restore(msgspec.json.decode(stored, type=Memory))
        self.memory = kept if keep_memory else Memory(accepted_at=self.now)
        if not keep_memory:  # a hook that nobody remembers counts as done
            for cid, process in self.processes.items():
                process.hooks.add("hooked")
                self._up(cid)
        self.daemon = True
        self._decide()

    # ---- acting --------------------------------------------------------------------
    def _act(self, action: do.Action) -> None:
        match action:
            case do.CreateSandbox():
                self._abandonable.add(action.key)
                self.at(MAKE, partial(self._sandbox, action), daemon=True)
            case do.StartContainer():
                self._abandonable.add(action.key)
                self.at(MAKE, partial(self._start, action), daemon=True)
            case do.RunPostStart():
                self._post_start(action)
            case do.RunPreStop():
                self._pre_stop(action)
            case do.StopContainer():
                self._stop(action)
            case do.RemoveContainer():
                self.at(MAKE, partial(self._remove, action), daemon=True)
            case do.StopSandbox():
                self.at(MAKE, partial(self._stop_sandbox, action), daemon=True)
            case do.RemoveSandbox():
                self.at(MAKE, partial(self._remove_sandbox, action), daemon=True)

    def _log(self, name: str, what: str) -> None:
        self.journal.append(Entry(self.seconds, name, what))

    def _sandbox(self, action: do.CreateSandbox) -> None:
        if action.key not in self._abandonable:
            return
        self._abandonable.discard(action.key)
        assert not any(s.ready for s in self.sandboxes), "a second sandbox"
        new = ObservedSandbox(
            id=f"sb{action.attempt}", attempt=action.attempt, ready=True, created_at=self.now, ips=("10.0.0.9",)
        )
        self.sandboxes.insert(0, new)
        self._log("sandbox", f"made {action.attempt}")
        self._done(action.key)

    def _life(self, name: str, born: int) -> Life:
        lives = self.lives.get(name) or [Life()]
        return lives[min(born, len(lives) - 1)]

    def _start(self, action: do.StartContainer) -> None:
        if action.key not in self._abandonable:
            return
        if not self.answer_after:
            self._abandonable.discard(action.key)
        name = action.name
        assert not any(r.name == name and r.id in self.processes for r in self.records), f"{name} started twice"
        assert any(s.id == action.sandbox_id and s.ready for s in self.sandboxes)
        container = find(self.pod, name)
        assert container is not None
        self._check_gate(name, action.sandbox_id)
        born = self._born.get(name, 0)
        life = self._life(name, born)
        if not life.pulls:
            error = StartError(
                reason="ErrImagePull", message="no", at=self.now, retry_at=self.now + 10,
                later_reason="ImagePullBackOff", later_message="Back-off", later_at=self.now + 2,
            )  # fmt: skip
            self._abandonable.discard(action.key)
            self._log(name, "unpullable")
            self._born[name] = born + 1
            self._note(lambda m: notes.start_failed(m, name, error))
            self._done(action.key)
            return
        self._born[name] = born + 1
        record = ObservedContainer(
            id=f"{name}#{born}", name=name, sandbox_id=action.sandbox_id, state=RecordState.RUNNING,
            created_at=self.now, started_at=self.now, image=container.image, image_id="sha256:1",
            hash=container_hash(container), restart_count=action.restart_count,
        )  # fmt: skip
        self.records.insert(0, record)
        self.processes[record.id] = Running(record, life)
        self._log(name, "start")
        if life.runs is not None:
            self.at(life.runs, partial(self._exit, record.id, life.code))
        self._probe(container, record.id, life)
        if self.answer_after:
            self.at(self.answer_after, partial(self._answered, action, record.id), daemon=True)
        else:
            self._answered(action, record.id)

    def _answered(self, action: do.StartContainer, cid: str) -> None:
        if self.answer_after and action.key not in self._abandonable:
            return
        self._abandonable.discard(action.key)
        self._note(lambda m: notes.container_started(
            m, pod=self.pod, name=action.name, container_id=cid, restart_count=action.restart_count
        ))  # fmt: skip
        self._done(action.key)

    def _check_gate(self, name: str, sandbox_id: str) -> None:
        """Nothing starts for the first time in a sandbox before all that comes before it is done or up."""
        first = (sandbox_id, f"start {name}") not in self._reached
        self._reached.add((sandbox_id, f"start {name}"))
        for entry in self.pod.spec.init_containers:
            if entry.name == name:
                again = (sandbox_id, f"done {name}") in self._reached
                assert is_sidecar(entry) or not again, f"{name} runs again although it completed"
                break
            assert not first or (sandbox_id, f"done {entry.name}") in self._reached, f"{name} before {entry.name}"

    def _check_turn(self, name: str) -> None:
        """While there is time, a sidecar is signalled only when all that was started after it is down."""
        stopping = self.memory.stopping
        if stopping is None or stopping.grace == 0 or self.now >= stopping.began + stopping.grace:
            return
        sidecars = self.sidecars()
        if name in sidecars:
            before = sidecars[: sidecars.index(name) + 1]
            alive = {process.record.name for process in self.processes.values()}
            single = self._singly_killed(name)
            assert single or alive <= set(before), f"{name} is signalled while {alive - set(before)} run"

    def _singly_killed(self, name: str) -> bool:
        ids = [r.id for r in self.records if r.name == name]
        return any(cid in self.memory.kills and self.memory.kills[cid].reason is not KillReason.POD for cid in ids)

    def _up(self, cid: str) -> None:
        """A sidecar counts as reached when its startup probe and its postStart hook have ended well."""
        process = self.processes.get(cid)
        if (
            process is None
            or process.record.name not in self.sidecars()
            or "up" not in process.hooks
            or "hooked" not in process.hooks
        ):
            return
        self._reached.add((process.record.sandbox_id, f"done {process.record.name}"))

    def _probe(self, container: Container, cid: str, life: Life) -> None:
        """As the probers: startup first, then liveness and readiness; a result counts only while its container runs."""

        def say(kind: notes.ProbeKind, result: ProbeResult) -> None:
            # Probers stop startup and liveness when the stop begins.
            stopping = self.memory.stopping is not None or cid in self.memory.kills
            if cid in self.processes and self.daemon and not (stopping and kind != "readiness"):
                self._note(lambda m: notes.probe_result(m, cid, kind, result))

        def up() -> None:
            if cid in self.processes:
                self.processes[cid].hooks.add("up")
                self._up(cid)

        if container.lifecycle is None or container.lifecycle.post_start is None:
            self.processes[cid].hooks.add("hooked")
        first = 0.0
        if container.startup_probe is None:
            up()
        else:
            if life.startup_fails_at is not None:
                self.at(life.startup_fails_at, lambda: say("startup", ProbeResult.FAILURE))
                return
            if life.up_after is None:
                return
            first = life.up_after
            self.at(first, lambda: say("startup", ProbeResult.SUCCESS))
            self.at(first, up)
        if container.liveness_probe is not None and life.dies_at is not None:
            self.at(max(first, life.dies_at), lambda: say("liveness", ProbeResult.FAILURE))
        if container.readiness_probe is not None and life.ready_after is not None:
            self.at(max(first, life.ready_after), lambda: say("readiness", ProbeResult.SUCCESS))

    def _exit(self, cid: str, code: int) -> None:
        process = self.processes.pop(cid, None)
        if process is None:
            return
        index = next(i for i, r in enumerate(self.records) if r.id == cid)
        self.records[index] = msgspec.structs.replace(
            self.records[index], state=RecordState.EXITED, exit_code=code, finished_at=self.now,
            reason="Completed" if code == 0 else "Error",
        )  # fmt: skip
        self._log(process.record.name, f"exit {code}")
        entry = find(self.pod, process.record.name)
        if code == 0 and entry is not None and not is_sidecar(entry):
            self._reached.add((process.record.sandbox_id, f"done {entry.name}"))
        for key in process.hooks:  # exec hooks die with their container
            if key.startswith("postStart:") and key in self.memory.in_flight:
                self._post_start_end(cid, key, ok=False)
            elif key.startswith("preStop:") and key in self.memory.in_flight:
                self._pre_stop_end(process.record.name, cid, key)

    def crash(self, name: str, code: int = 137) -> None:
        """Kill a container's process from outside."""
        self._exit(next(r.id for r in self.records if r.name == name and r.id in self.processes), code)
        self._decide()

    def _post_start(self, action: do.RunPostStart) -> None:
        process = self.processes[action.container_id]
        self._log(action.name, "postStart")
        process.hooks.add(action.key)
        self._abandonable.add(action.key)
        if process.life.post_start is not None:
            ok = not process.life.post_start_fails
            end = partial(self._post_start_end, action.container_id, action.key, ok=ok)
            self.at(process.life.post_start, end, daemon=True)

    def _post_start_end(self, cid: str, key: str, *, ok: bool) -> None:
        if key not in self._abandonable:
            return
        self._abandonable.discard(key)
        error = None if ok else StartError(
            reason="PostStartHookError", message="failed", at=self.now, retry_at=self.now
        )  # fmt: skip
        self._log(cid.split("#", maxsplit=1)[0], "postStart-end" if ok else "postStart-failed")
        if ok:
            self.processes[cid].hooks.add("hooked")
            self._up(cid)
        self._note(lambda m: notes.post_start_finished(m, cid, error))
        self._done(key)

    def _pre_stop(self, action: do.RunPreStop) -> None:
        process = self.processes[action.container_id]
        self._log(action.name, "preStop")
        process.hooks.add(action.key)
        if process.life.pre_stop is not None:
            end = partial(self._pre_stop_end, action.name, action.container_id, action.key)
            self.at(process.life.pre_stop, end, daemon=True)

    def _pre_stop_end(self, name: str, cid: str, key: str) -> None:
        if key not in self.memory.in_flight:
            return
        self._log(name, "preStop-end")
        self._note(lambda m: notes.pre_stop_finished(m, name=name, container_id=cid))
        self._done(key)

    def _stop(self, action: do.StopContainer) -> None:
        cid, process = action.container_id, self.processes.get(action.container_id)
        if process is None:
            self.at(0, partial(self._done, action.key), daemon=True)
            return
        if not process.signalled:
            self._check_turn(action.name)
            process.signalled = True
            self._log(action.name, f"term {action.timeout}")
            if process.life.on_term is not None:
                self.at(process.life.on_term, partial(self._exit, cid, process.life.term_code))
        self.at(action.timeout, partial(self._exit, cid, 137), daemon=True)
        self._await_exit(cid, action.key)

    def _await_exit(self, cid: str, key: str) -> None:
        """StopContainer comes back when the container is dead."""
        if cid not in self.processes:
            self._done(key)
        else:
            ends = [at for at, _, life, what in self._heap if life in (-1, self._daemon_life) and _exits(what, cid)]
            self.at(min(ends) - self.now, partial(self._await_exit, cid, key), daemon=True)

    def _remove(self, action: do.RemoveContainer) -> None:
        assert action.container_id not in self.processes
        self.records = [r for r in self.records if r.id != action.container_id]
        if not self.records:
            self._reached.clear()  # RestartAllContainers: the sequence begins anew
        self._done(action.key)

    def _stop_sandbox(self, action: do.StopSandbox) -> None:
        assert not any(p.record.sandbox_id == action.sandbox_id for p in self.processes.values())
        self._sandbox_down(action.sandbox_id)
        self._log("sandbox", "stopped")
        self._done(action.key)

    def _sandbox_down(self, sandbox_id: str) -> None:
        self.sandboxes = [msgspec.structs.replace(s, ready=False) if s.id == sandbox_id else s for s in self.sandboxes]

    def sandbox_dies(self, *, containers_too: bool = False) -> None:
        """The pause process dies; with `containers_too`, as at a reboot, all processes die with it."""
        for sandbox in self.sandboxes:
            self._sandbox_down(sandbox.id)
        if containers_too:
            for cid in tuple(self.processes):
                self._exit(cid, 137)
        self._decide()

    def _remove_sandbox(self, action: do.RemoveSandbox) -> None:
        assert not any(r.sandbox_id == action.sandbox_id for r in self.records)
        self.sandboxes = [s for s in self.sandboxes if s.id != action.sandbox_id]
        self._done(action.key)

    # ---- reading the journal ---------------------------------------------------------
    def times(self, name: str, what: str) -> list[float]:
        return [e.at for e in self.journal if e.name == name and e.what.split(" ")[0] == what.split(" ", maxsplit=1)[0]
                and (" " not in what or e.what == what)]  # fmt: skip

    def first(self, name: str, what: str) -> float:
        return self.times(name, what)[0]

    def last(self, name: str, what: str) -> float:
        return self.times(name, what)[-1]

    def never(self, name: str, what: str) -> bool:
        return not self.times(name, what)

    def order(self, what: str) -> list[str]:
        return [e.name for e in self.journal if e.what.split(" ")[0] == what]

    @property
    def status(self) -> PodStatus:
        return self.statuses[-1][1]

    @property
    def phases(self) -> list[str]:
        found: list[str] = []
        for _, status in self.statuses:
            if not found or found[-1] != status.phase:
                found.append(status.phase)
        return found

    def reasons(self, reason: str, container: str = "") -> list[float]:
        return [at for at, e in self.events if e.reason == reason and container in ("", e.container)]

    def sidecars(self) -> list[str]:
        return [c.name for c in self.pod.spec.init_containers if is_sidecar(c)]


def _exits(what: Callable[[], None], cid: str) -> bool:
    return isinstance(what, partial) and what.func.__name__ == "_exit" and what.args[0] == cid
