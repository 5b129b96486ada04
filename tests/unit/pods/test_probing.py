"""Which running containers are probed (PH 4.6, 7.1)."""

from __future__ import annotations

import asyncio
import types
from typing import cast

import pytest

from minikubelet.api.handlers import Lifecycle, LifecycleHandler
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, ExecAction, Pod, PodSpec, Probe
from minikubelet.lifecycle.memory import HookState, Memory
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.pods.probing import Probing
from minikubelet.pods.services import Services

HOOK = LifecycleHandler(exec=ExecAction(command=("true",)))
CONTAINER = Container(
    name="a",
    image="i",
    liveness_probe=Probe(exec=ExecAction(command=("true",)), initial_delay_seconds=60),
    lifecycle=Lifecycle(post_start=HOOK),
)
POD = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"), spec=PodSpec(containers=(CONTAINER,)))
RUNNING = ObservedContainer(id="1", name="a", state=RecordState.RUNNING, sandbox_id="s", created_at=1, started_at=1)


@pytest.mark.parametrize(
    ("post_start", "probed"),
    [
        pytest.param({}, True, id="adopted: the hook counts as done"),
        pytest.param({"1": HookState.DONE}, True, id="the hook has ended"),
        pytest.param({"1": HookState.PENDING}, False, id="the hook runs"),
        pytest.param({"1": HookState.FAILED}, False, id="the hook has failed"),
        pytest.param({"a": HookState.PENDING}, False, id="the start has not come back, so the hook is still to run"),
    ],
)
@pytest.mark.looptime
async def test_a_container_is_not_probed_before_its_post_start_hook_has_ended(
    post_start: dict[str, HookState],
    probed: bool,
) -> None:
    services = cast("Services", types.SimpleNamespace(clients=None, recorder=None, clock=lambda: 1.0))
    memory = Memory(accepted_at=0, post_start=post_start)
    async with asyncio.TaskGroup() as tasks:
        probing = Probing(tasks, services=services, on_result=lambda *_: None)
        probing.follow(POD, observed=Observed(containers=(RUNNING,)), memory=memory)
        assert bool(probing._probers) is probed
        probing.stop()
