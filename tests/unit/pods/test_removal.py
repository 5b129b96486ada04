"""A pod whose removal is asked for in an awkward moment is removed, with all that the runtime has of it."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.backoff import CRASH
from minikubelet.lifecycle.memory import Memory, StopCause, Stopping
from minikubelet.lifecycle.records import Observed, ObservedContainer, ObservedSandbox, RecordState
from minikubelet.pods.services import Services
from minikubelet.pods.worker import PodWorker

POD = Pod(
    metadata=ObjectMeta(name="job", namespace="d", uid="u"),
    spec=PodSpec(containers=(Container(name="a", image="i"),), restart_policy="Never"),
)
ENDED = Observed(
    sandboxes=(ObservedSandbox(id="s", attempt=0, ready=False, created_at=1),),
    containers=(
        ObservedContainer(
            id="c", name="a", sandbox_id="s", state=RecordState.EXITED, created_at=1, started_at=2, finished_at=3
        ),
    ),
)
STOPPED = Memory(
    accepted_at=1,
    status=PodStatus(phase="Succeeded"),
    stopping=Stopping(cause=StopCause.COMPLETED, began=3, grace=30),
    stopped=True,
    stopped_sandboxes=frozenset({"s"}),
)


class Runtime:
    """What is left of the pod in the runtime, and whether its volumes are being given back."""

    def __init__(self) -> None:
        self.has = ENDED
        self.giving_back = asyncio.Event()
        self.goes_on = asyncio.Event()

    def services(self) -> Services:
        nothing = types.SimpleNamespace
        connected = asyncio.Event()
        connected.set()

        @contextlib.contextmanager
        def subscribed(_: object) -> Iterator[None]:
            yield

        return cast(
            "Services",
            nothing(
                cri=nothing(remove_container=self.remove, remove_pod_sandbox=self.remove),
                state=nothing(
                    wait_connected=connected.wait,
                    observed=lambda _uid: self.has,
                    note_removed=lambda _id: None,
                ),
                volumes=nothing(teardown=self.teardown, remove_pod_dir=self.nothing, refresh=self.nothing),
                cgroups=nothing(adopt=lambda _pod: None, remove=self.nothing),
                objects=nothing(subscribed=subscribed, version=0),
                image_news=nothing(subscribed=subscribed),
                node=nothing(runtime_classes={}, recursive_read_only=(), node_ip="", images={}, log_dir=Path("/none")),
                live=nothing(put=lambda _pod: None),
                store=nothing(save_pod=lambda _pod: None),
                recorder=nothing(event=lambda *_: None),
                crash_backoff=CRASH,
                clock=lambda: 10.0,
            ),
        )

    async def nothing(self, *_: object) -> None:
        pass

    async def teardown(self, _uid: str) -> None:
        self.giving_back.set()
        await self.goes_on.wait()

    async def remove(self, object_id: str) -> None:
        if object_id == "s":
            assert not self.has.containers
            self.has = Observed()
        else:
            self.has = Observed(sandboxes=self.has.sandboxes)


@pytest.fixture(autouse=True)
def _no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr("minikubelet.pods.executor.remove_container_logs", nothing)
    monkeypatch.setattr("minikubelet.pods.cleanup.remove_pod_logs", nothing)


async def test_a_removal_while_an_ended_pod_gives_back_what_it_used() -> None:
    runtime = Runtime()
    worker = PodWorker(POD, file="", memory=STOPPED, services=runtime.services(), on_ended=lambda: None)
    run = asyncio.create_task(worker.run(), name="worker")
    await runtime.giving_back.wait()
    worker.remove()
    runtime.goes_on.set()
    await run
    assert runtime.has == Observed()
