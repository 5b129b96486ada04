"""Keeps one prober going for each running container that has probes.

`worker.py` calls `follow` after each decision; the probers' results come back through `on_result`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from minikubelet.api.pod import Container, Pod, is_sidecar
from minikubelet.lifecycle.memory import Memory, ProbeResult, ProbeResults
from minikubelet.lifecycle.notes import ProbeKind
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.view import hook_holds
from minikubelet.pods.executor import pod_address
from minikubelet.pods.probes.prober import ContainerProber
from minikubelet.pods.services import Services

OnResult = Callable[[str, ProbeKind, ProbeResult], None]


def _probed(pod: Pod) -> Iterator[Container]:
    sidecars = (c for c in pod.spec.init_containers if is_sidecar(c))
    for container in (*sidecars, *pod.spec.containers):
        if container.startup_probe or container.liveness_probe or container.readiness_probe:
            yield container


class Probing:
    def __init__(self, tasks: asyncio.TaskGroup, *, services: Services, on_result: OnResult) -> None:
        self._tasks = tasks
        self._services = services
        self._on_result = on_result
        self._probers: dict[str, tuple[ContainerProber, asyncio.Task[None]]] = {}

    def follow(self, pod: Pod, *, observed: Observed, memory: Memory) -> None:
        """Begin and end probers so that they match what runs now."""
        wanted: set[str] = set()
        for container in _probed(pod):
            record = observed.newest(container.name)
            if record is None or record.state is not RecordState.RUNNING:
                continue
            if hook_holds(container, record, memory):
                continue  # until its hook has ended the container is not shown, nor probed (PH 4.6)
            wanted.add(record.id)
            if record.id not in self._probers:
                self._begin(pod, container, record, memory.probes.get(record.id, ProbeResults()))
            if memory.stopping is not None or record.id in memory.kills:
                self._probers[record.id][0].stop_restarting()
        for container_id in self._probers.keys() - wanted:
            self._probers.pop(container_id)[1].cancel()

    def stop(self) -> None:
        for _, task in self._probers.values():
            task.cancel()
        self._probers.clear()

    def _begin(self, pod: Pod, container: Container, record: ObservedContainer, seeds: ProbeResults) -> None:
        services = self._services
        prober = ContainerProber(
            pod,
            container,
            container_id=record.id,
            started_at=record.started_at,
            address=lambda: pod_address(pod, services),
            seeds=seeds,
            on_result=self._on_result,
            clients=services.clients,
            recorder=services.recorder,
            clock=services.clock,
        )
        task = self._tasks.create_task(prober.run(), name=f"{pod.metadata.name} probes {container.name}")
        self._probers[record.id] = (prober, task)
