"""What is shown of the pods that the store remembers while containerd has not been reached yet (README 5, 7)."""

from __future__ import annotations

import types
from typing import cast

import msgspec
import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.memory import Memory, StopCause, Stopping
from minikubelet.pods.live import LivePods
from minikubelet.pods.manager import PodManager
from minikubelet.store.database import Store, StoredPod

POD = Pod(
    metadata=ObjectMeta(name="web", namespace="d", uid="u"), spec=PodSpec(containers=(Container(name="a", image="i"),))
)
RUNNING = PodStatus(phase="Running", pod_ip="192.0.2.9", start_time="2026-01-01T00:00:00Z")


async def shown_after_a_restart(memory: Memory) -> Pod:
    encode = msgspec.json.encode
    rows = [StoredPod(uid="u", file="web.yaml", pod=encode(POD), memory=encode(memory))]

    async def load_pods() -> list[StoredPod]:
        return rows

    live = LivePods()
    store = cast("Store", types.SimpleNamespace(load_pods=load_pods))
    await PodManager(store=store, live=live, node_ip="192.0.2.1").load()
    (pod,) = live.all()
    return pod


async def test_a_remembered_pod_keeps_the_address_of_its_host() -> None:
    pod = await shown_after_a_restart(Memory(accepted_at=0, status=RUNNING))
    assert pod.status is not None
    assert (pod.status.phase, pod.status.host_ip, pod.status.pod_ip) == ("Running", "192.0.2.1", "192.0.2.9")
    assert pod.metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    ("cause", "deleted"),
    [(StopCause.REMOVED, "1970-01-01T00:01:40Z"), (StopCause.COMPLETED, None)],
    ids=str,
)
async def test_a_pod_whose_removal_was_under_way_is_still_shown_as_going(cause: StopCause, deleted: str | None) -> None:
    memory = Memory(accepted_at=0, status=RUNNING, stopping=Stopping(cause=cause, began=70, grace=30))
    pod = await shown_after_a_restart(memory)
    assert pod.metadata.deletion_timestamp == deleted
    assert pod.metadata.deletion_grace_period_seconds == (30 if deleted else None)


async def test_what_is_kept_for_its_owner_is_there_until_the_runtime_was_looked_at() -> None:
    """Otherwise its owner would take it for gone."""
    live = LivePods()
    manager = PodManager(store=cast("Store", None), live=live, node_ip="")
    manager.keep(POD)
    assert live.get("u") is not None
    manager.unwant("u")
    assert live.get("u") is None
