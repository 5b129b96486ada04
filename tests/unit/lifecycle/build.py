"""Short ways to write pods, records and memories in the tests of the pure core."""

from __future__ import annotations

from typing import Any

from minikubelet.api.definition import container_hash
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, ExecAction, Lifecycle, LifecycleHandler, Pod, PodSpec, Probe
from minikubelet.api.status import ContainerStatus, PodStatus
from minikubelet.lifecycle.memory import Memory, ProbeResult, ProbeResults
from minikubelet.lifecycle.records import Observed, ObservedContainer, ObservedSandbox, RecordState

T0 = 1_000_000.0
IMAGE = "busybox:1.36"
PROBE = Probe(exec=ExecAction(command=("true",)))
HOOK = LifecycleHandler(exec=ExecAction(command=("true",)))


def hooks(*, post_start: bool = False, pre_stop: bool = False) -> Lifecycle:
    return Lifecycle(post_start=HOOK if post_start else None, pre_stop=HOOK if pre_stop else None)


def container(name: str, **fields: Any) -> Container:
    return Container(**{"name": name, "image": IMAGE, **fields})


def sidecar(name: str, **fields: Any) -> Container:
    return container(name, restart_policy="Always", **fields)


def pod(*mains: Container | str, init: tuple[Container | str, ...] = (), policy: str = "Always", **fields: Any) -> Pod:
    """Names stand for plain containers."""

    def made(entries: tuple[Container | str, ...]) -> tuple[Container, ...]:
        return tuple(container(entry) if isinstance(entry, str) else entry for entry in entries)

    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", uid="u1"),
        spec=PodSpec(
            containers=made(mains) or (container("m"),), init_containers=made(init), restart_policy=policy, **fields
        ),
    )


def sandbox(sandbox_id: str = "sb0", *, attempt: int = 0, ready: bool = True, **fields: Any) -> ObservedSandbox:
    given = {"created_at": T0 + attempt, "ips": ("10.0.0.9",), **fields}
    return ObservedSandbox(id=sandbox_id, attempt=attempt, ready=ready, **given)


def record(name: str, state: RecordState = RecordState.RUNNING, code: int = 0, **fields: Any) -> ObservedContainer:
    """A record in sandbox sb0 with an id of its own, made 1 s and ended 5 s after T0."""
    ended = state is RecordState.EXITED
    given: dict[str, Any] = {
        "id": f"{name}-id",
        "sandbox_id": "sb0",
        "created_at": T0 + 1,
        "started_at": T0 + 1,
        "finished_at": T0 + 5 if ended else 0.0,
        "exit_code": code,
        "reason": ("Completed" if code == 0 else "Error") if ended else "",
        "image": IMAGE,
        "image_id": "sha256:1",
        "hash": container_hash(container(name)),
        **fields,
    }
    return ObservedContainer(name=name, state=state, **given)


def running(name: str, **fields: Any) -> ObservedContainer:
    return record(name, RecordState.RUNNING, **fields)


def exited(name: str, code: int = 0, **fields: Any) -> ObservedContainer:
    return record(name, RecordState.EXITED, code, **fields)


def observed(*records: ObservedContainer, sandboxes: tuple[ObservedSandbox, ...] | None = None) -> Observed:
    """Records newest first, as they are given, in one ready sandbox."""
    return Observed(sandboxes=(sandbox(),) if sandboxes is None else sandboxes, containers=records)


def memory(**fields: Any) -> Memory:
    return Memory(**{"accepted_at": T0, **fields})


def results(**named: ProbeResult) -> ProbeResults:
    return ProbeResults(**named)


def status_of(status: PodStatus | None, name: str) -> ContainerStatus:
    assert status is not None
    return next(s for s in (*status.init_container_statuses, *status.container_statuses) if s.name == name)


def condition_of(status: PodStatus, kind: str) -> tuple[str, str, str]:
    found = next(c for c in status.conditions if c.type == kind)
    return found.status, found.reason, found.message
