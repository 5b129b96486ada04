"""Rows about Jobs: how soon one is Complete after its main has ended, and how long many short ones take.

`bench.run` calls them. The floor's part is what a bare client does with CRI alone: three stops back to back, and pods
that are made, run for a second and are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from typing import Any

import aiohttp
import msgspec

from bench.floor import Floor
from bench.marks import Marks, script
from minikubelet.api.decode import decode_file
from minikubelet.api.pod import Pod
from tests.support.node import PrivateNode

IMAGE = "busybox:1.36"
SIDECARS = 3
#: Seconds from the mark that a container makes at its end to its exit, on the safe side.
_EXIT = 0.5


class JobBench:
    def __init__(self, node: PrivateNode, marks: Marks, floor: Floor) -> None:
        self.node, self.marks, self.floor = node, marks, floor
        self._count = 0

    def name(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"

    def template(self, name: str, *, run: float, sidecars: int) -> dict[str, Any]:
        return {
            "restartPolicy": "Never",
            "dnsPolicy": "Default",
            "volumes": [{"name": "marks", "hostPath": {"path": str(self.marks.folder)}}],
            "initContainers": [
                {**_container(f"s{i}", script(f"{name}-s{i}")), "restartPolicy": "Always"} for i in range(sidecars)
            ],
            "containers": [_container("main", script(name, run=run))],
        }

    def pod(self, name: str, template: dict[str, Any]) -> Pod:
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template}
        decoded = decode_file("bench.json", msgspec.json.encode(manifest), node_name="bench")
        if decoded.errors:
            raise ValueError(str(decoded.errors[0]))
        pod: Pod = decoded.objects[0]
        return pod

    def drop(self, name: str, template: dict[str, Any]) -> None:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        staged = self.node.base / "staged.json"
        staged.write_bytes(msgspec.json.encode({**job, "spec": {"template": {"spec": template}}}))
        staged.rename(self.node.manifests / f"{name}.json")

    async def remove(self, names: list[str]) -> None:
        for name in names:
            (self.node.manifests / f"{name}.json").unlink()
        while self.read("SELECT count(*) FROM jobs") != [(0,)]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.2)

    def read(self, query: str) -> list[Any]:
        path = self.node.base / "minikubelet" / "minikubelet.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as books:
            return books.execute(query).fetchall()

    # ---- one Job's end ------------------------------------------------------------
    async def completion(self, rounds: int) -> tuple[list[float], list[float]]:
        """Seconds from main's exit to Complete with three sidecars, and of three stops in a row: (daemon, floor)."""
        daemon: list[float] = []
        floor: list[float] = []
        async with aiohttp.ClientSession(self.node.url, timeout=aiohttp.ClientTimeout(120)) as http:
            for _ in range(rounds):
                floor.append(await self._stops())
                daemon.append(await self._job(http))
        return daemon, floor

    async def _stops(self) -> float:
        name = self.name("stops")
        pod = self.pod(name, self.template(name, run=0.5, sidecars=SIDECARS))
        sandbox = self.floor.sandbox(pod)
        sandbox_id = await self.floor.cri.run_pod_sandbox(sandbox)
        ids = [
            await self.floor.start(pod, container, sandbox_id=sandbox_id, sandbox=sandbox)
            for container in (*pod.spec.init_containers, *pod.spec.containers)
        ]
        began = await self.marks.at(f"{name}.ending")
        for container_id in reversed(ids[:SIDECARS]):
            await self.floor.cri.stop_container(container_id, timeout=30)
        took = time.monotonic() - began
        await self.floor.down(sandbox_id)
        return took

    async def _job(self, http: aiohttp.ClientSession) -> float:
        name = self.name("job")
        self.drop(name, self.template(name, run=0.5, sidecars=SIDECARS))
        began = await self.marks.at(f"{name}.ending")
        async with http.get(f"/jobs/default/{name}", params={"for": "Complete", "seconds": "60"}) as answer:
            await answer.read()
        took = time.monotonic() - began
        await self.remove([name])
        return took

    # ---- many short ones ----------------------------------------------------------
    async def short_jobs(self, count: int) -> dict[str, float]:
        """So many Jobs of a second, at once: seconds until all are done, by the floor and by the daemon."""
        names = [self.name("floor") for _ in range(count)]
        pods = [self.pod(name, self.template(name, run=1, sidecars=0)) for name in names]
        began = time.monotonic()
        slots = asyncio.Semaphore(2 * (os.cpu_count() or 1))
        async with asyncio.TaskGroup() as tasks:
            sandboxes = [tasks.create_task(self._short(pod, slots), name=pod.metadata.name) for pod in pods]
        floor = max([await self.marks.at(f"{name}.ending") for name in names]) - began
        for task in sandboxes:
            await self.floor.cri.remove_pod_sandbox(task.result())
        names = [self.name("short") for _ in range(count)]
        began, cpu = time.time(), cpu_of(self.node.pid)
        for name in names:
            self.drop(name, self.template(name, run=1, sidecars=0))
        while self.read("SELECT count(*) FROM jobs WHERE completion_time NOT NULL") != [(count,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        busy = cpu_of(self.node.pid) - cpu
        ((last,),) = self.read("SELECT max(completion_time) FROM jobs")
        await self.remove(names)
        return {"floor": floor, "daemon": last - began, "cpu": busy}

    async def _short(self, pod: Pod, slots: asyncio.Semaphore) -> str:
        async with slots:
            sandbox_id = await self.floor.up(pod)
        await self.marks.at(f"{pod.metadata.name}.ending", within=600)
        await asyncio.sleep(_EXIT)
        await self.floor.cri.stop_pod_sandbox(sandbox_id)
        return sandbox_id


def _container(name: str, command: list[str]) -> dict[str, Any]:
    mounts = [{"name": "marks", "mountPath": "/marks"}]
    return {"name": name, "image": IMAGE, "command": command, "volumeMounts": mounts}


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
