"""The floor: the same CRI calls that the daemon makes, back to back, with nothing decided, watched or remembered."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from minikubelet.api.pod import Container, Pod
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.mapping import (
    ContainerInputs,
    ImageFacts,
    MountSources,
    NodeContext,
    container_config,
    sandbox_config,
)
from minikubelet.runtime.pb import cri_pb2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Floor:
    cri: CRIClient
    images: ImageService
    node: NodeContext
    marks: Path

    async def up(self, pod: Pod) -> str:
        """Sandbox, then every init entry and container, created and started in order; the sandbox's id."""
        sandbox = self.sandbox(pod)
        sandbox_id = await self.cri.run_pod_sandbox(sandbox)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            await self.start(pod, container, sandbox_id=sandbox_id, sandbox=sandbox)
        return sandbox_id

    def sandbox(self, pod: Pod) -> cri_pb2.PodSandboxConfig:
        return sandbox_config(pod, self.node, attempt=0, resolv_conf="")[0]

    async def start(
        self, pod: Pod, container: Container, *, sandbox_id: str, sandbox: cri_pb2.PodSandboxConfig, attempt: int = 0
    ) -> str:
        image = await self.images.status(container.image)
        if image is None:
            raise LookupError(f"{container.image} is not loaded")
        volumes = {volume.name: str(self.marks) for volume in pod.spec.volumes}
        inputs = ContainerInputs(
            restart_count=attempt, image=ImageFacts.of(image), mounts=MountSources(volumes=volumes)
        )
        config = container_config(pod, container, self.node, inputs)
        container_id = await self.cri.create_container(sandbox_id, config, sandbox_config=sandbox)
        await self.cri.start_container(container_id)
        return container_id

    async def down(self, sandbox_id: str) -> None:
        await self.cri.stop_pod_sandbox(sandbox_id)
        await self.cri.remove_pod_sandbox(sandbox_id)

    async def many(self, pods: list[Pod], *, at_once: int) -> list[str]:
        """All of the pods up, so many at a time."""
        slots = asyncio.Semaphore(at_once)

        async def one(pod: Pod) -> str:
            async with slots:
                return await self.up(pod)

        return list(await asyncio.gather(*(one(pod) for pod in pods)))
