"""The floor: the same CRI calls made back to back by a bare client. Whatever the daemon needs beyond this is its own.

`python -m bench.floor SOCKET IMAGE [PODS]` prints medians; other benchmarks call `floor_pod` in the run they measure in.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.pb import cri_pb2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Floor:
    """What one pod took, in seconds. `started` are the moments (since the first call) when each container ran."""

    sandbox_id: str
    sandbox: float
    started: tuple[float, ...]

    @property
    def total(self) -> float:
        return self.started[-1] if self.started else self.sandbox


async def floor_pod(
    cri: CRIClient,
    *,
    image: str,
    commands: Sequence[Sequence[str]],
    log_directory: str,
    cgroup_root: str = "",
    host_network: bool = False,
) -> Floor:
    """Run a pod with a container for each command, one after the other. The caller removes the sandbox."""
    uid = secrets.token_hex(8)
    network = cri_pb2.NODE if host_network else cri_pb2.POD
    namespaces = cri_pb2.NamespaceOption(network=network, pid=cri_pb2.CONTAINER)
    pod = cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=f"floor-{uid}", namespace="floor", uid=uid),
        log_directory=f"{log_directory}/{uid}",
        linux=cri_pb2.LinuxPodSandboxConfig(
            cgroup_parent=f"{cgroup_root}/kubepods/besteffort/pod{uid}",
            security_context=cri_pb2.LinuxSandboxSecurityContext(namespace_options=namespaces),
        ),
    )
    began = time.perf_counter()
    sandbox_id = await cri.run_pod_sandbox(pod)
    sandbox = time.perf_counter() - began
    started = []
    for index, command in enumerate(commands):
        container = cri_pb2.ContainerConfig(
            metadata=cri_pb2.ContainerMetadata(name=f"c{index}"),
            image=cri_pb2.ImageSpec(image=image),
            command=command,
            log_path=f"c{index}/0.log",
            linux=cri_pb2.LinuxContainerConfig(
                security_context=cri_pb2.LinuxContainerSecurityContext(namespace_options=namespaces)
            ),
        )
        await cri.start_container(await cri.create_container(sandbox_id, container, sandbox_config=pod))
        started.append(time.perf_counter() - began)
    return Floor(sandbox_id=sandbox_id, sandbox=sandbox, started=tuple(started))


async def remove(cri: CRIClient, floor: Floor) -> None:
    await cri.stop_pod_sandbox(floor.sandbox_id)
    await cri.remove_pod_sandbox(floor.sandbox_id)


async def _main(socket: str, image: str, pods: int) -> None:
    with tempfile.TemporaryDirectory(prefix="floor-") as logs:
        async with connect(socket) as channel:
            cri = CRIClient(channel)
            floors = []
            for _ in range(pods):
                floors.append(await floor_pod(cri, image=image, commands=[["sleep", "1000"]], log_directory=logs))
                await remove(cri, floors[-1])
    print(f"sandbox {statistics.median(f.sandbox for f in floors) * 1000:.0f} ms", end=", ")
    print(f"first container runs after {statistics.median(f.total for f in floors) * 1000:.0f} ms ({pods} pods)")


if __name__ == "__main__":
    if len(sys.argv) not in {3, 4}:
        raise SystemExit("usage: python -m bench.floor SOCKET IMAGE [PODS]")
    asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 10))
