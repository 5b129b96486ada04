"""How fast the daemon is, as ratios to the floor within one run. `python -m bench.run --help`.

Absolute times mean nothing on a machine that does other things as well; the daemon and the floor take turns, and
medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable
from pathlib import Path

import msgspec

from bench.floor import Floor
from bench.jobs import JobBench, cpu_of
from bench.marks import Marks, script
from bench.probes import ProbeServer
from minikubelet.api.decode import decode_file
from minikubelet.api.pod import Pod
from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.host import node_context
from minikubelet.runtime.images import ImageService
from tests.support.node import PrivateNode

IMAGE = "busybox:1.36"


def container(name: str, command: list[str], **more: object) -> dict[str, object]:
    mounts = [{"name": "marks", "mountPath": "/marks"}]
    return {"name": name, "image": IMAGE, "command": command, "volumeMounts": mounts, **more}


class Bench:
    def __init__(self, node: PrivateNode, marks: Marks, floor: Floor) -> None:
        self.node, self.marks, self.floor = node, marks, floor
        self._count = 0

    def name(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"

    def manifest(
        self,
        name: str,
        containers: list[dict[str, object]],
        *,
        init: list[dict[str, object]] | None = None,
        **spec: object,
    ) -> bytes:
        volumes = [{"name": "marks", "hostPath": {"path": str(self.marks.folder)}}]
        body = {
            "containers": containers,
            "initContainers": init or [],
            "volumes": volumes,
            "dnsPolicy": "Default",
            **spec,
        }
        return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})

    def pod(self, manifest: bytes) -> Pod:
        decoded = decode_file("bench.json", manifest, node_name="bench")
        if decoded.errors:
            raise ValueError(str(decoded.errors[0]))
        pod: Pod = decoded.objects[0]
        return pod

    def drop(self, name: str, manifest: bytes) -> float:
        """Rename the manifest into the folder; when that was."""
        staged = self.node.base / "staged.json"
        staged.write_bytes(manifest)
        now = time.monotonic()
        staged.rename(self.node.manifests / f"{name}.json")
        return now

    async def remove(self, *names: str) -> None:
        for name in names:
            (self.node.manifests / f"{name}.json").unlink()
        while await asyncio.to_thread(self._listed) & {*names}:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)

    def _listed(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.node.get("/pods")["items"]}

    def cpu(self) -> float:
        """Seconds of processor time that the daemon has used."""
        return cpu_of(self.node.pid)

    def resident(self) -> float:
        """MiB."""
        return int(Path(f"/proc/{self.node.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    # ---- rows -----------------------------------------------------------------------
    async def start_ratio(self, rounds: int, sidecars: int) -> tuple[list[float], list[float]]:
        """Seconds from wish to the main's first act: (daemon, floor)."""
        daemon: list[float] = []
        floor: list[float] = []
        for _ in range(rounds):
            for target, act in ((floor, self._by_floor), (daemon, self._by_daemon)):
                name = self.name("up")
                init = [container(f"s{i}", script(f"{name}-s{i}"), restartPolicy="Always") for i in range(sidecars)]
                manifest = self.manifest(name, [container("main", script(name))], init=init)
                target.append(await act(name, manifest))
        return daemon, floor

    async def _by_floor(self, name: str, manifest: bytes) -> float:
        pod = self.pod(manifest)
        began = time.monotonic()
        sandbox_id = await self.floor.up(pod)
        took = await self.marks.at(f"{name}.started") - began
        await self.floor.down(sandbox_id)
        return took

    async def _by_daemon(self, name: str, manifest: bytes) -> float:
        began = self.drop(name, manifest)
        took = await self.marks.at(f"{name}.started") - began
        await self.remove(name)
        return took

    async def stop_latency(self, rounds: int) -> tuple[list[float], list[float]]:
        """Seconds from main's exit to the last sidecar's SIGTERM, and from its exit to the next one's."""
        first, second = [], []
        for _ in range(rounds):
            name = self.name("stop")
            init = [container(f"s{i}", script(f"{name}-s{i}"), restartPolicy="Always") for i in range(2)]
            main = container("main", script(name, run=0.5))
            self.drop(name, self.manifest(name, [main], init=init, restartPolicy="Never"))
            ended = await self.marks.at(f"{name}.ending")
            last = await self.marks.at(f"{name}-s1.term")
            first.append(last - ended)
            second.append(await self.marks.at(f"{name}-s0.term") - last)
            await self.remove(name)
        return first, second

    async def restart_ratio(self, rounds: int) -> tuple[list[float], list[float]]:
        """Seconds from exit to the restarted process: (daemon, create + start by the floor)."""
        daemon: list[float] = []
        floor: list[float] = []
        for _ in range(rounds):
            name = self.name("again")
            second = f"[ -e /marks/{name}.ended ] && : >/marks/{name}.again && exec sleep 1000"
            again = f"{second}; : >/marks/{name}.ended; exit 1"
            manifest = self.manifest(name, [container("main", ["sh", "-c", again])], terminationGracePeriodSeconds=0)
            self.drop(name, manifest)
            ended = await self.marks.at(f"{name}.ended")
            daemon.append(await self.marks.at(f"{name}.again") - ended)
            await self.remove(name)
            name = self.name("again")
            pod = self.pod(self.manifest(name, [container("main", script(name))]))
            sandbox = self.floor.sandbox(pod)
            sandbox_id = await self.floor.cri.run_pod_sandbox(sandbox)
            began = time.monotonic()
            await self.floor.start(pod, pod.spec.containers[0], sandbox_id=sandbox_id, sandbox=sandbox)
            floor.append(await self.marks.at(f"{name}.started") - began)
            await self.floor.down(sandbox_id)
        return daemon, floor

    async def crowd(self, count: int, *, idle: float) -> dict[str, float]:
        """So many pods of a sidecar and a main at once, until all mains run; then the daemon at rest."""

        def crowd(prefix: str) -> dict[str, bytes]:
            names = [self.name(prefix) for _ in range(count)]
            return {
                name: self.manifest(
                    name,
                    [container("main", script(name))],
                    init=[container("side", script(f"{name}-s"), restartPolicy="Always")],
                    terminationGracePeriodSeconds=1,
                )
                for name in names
            }

        pods = crowd("floor")
        began = time.monotonic()
        sandboxes = await self.floor.many([self.pod(m) for m in pods.values()], at_once=2 * (os.cpu_count() or 1))
        floor = max([await self.marks.at(f"{name}.started", within=600) for name in pods]) - began
        await asyncio.gather(*(self.floor.down(sandbox_id) for sandbox_id in sandboxes))
        pods = crowd("crowd")
        began, cpu = time.monotonic(), self.cpu()
        for name, manifest in pods.items():
            self.drop(name, manifest)
        daemon = max([await self.marks.at(f"{name}.started", within=600) for name in pods]) - began
        busy = self.cpu() - cpu
        await asyncio.sleep(5)
        cpu, then = self.cpu(), time.monotonic()
        await asyncio.sleep(idle)
        rest = (self.cpu() - cpu) / (time.monotonic() - then)
        resident = self.resident()
        await self.remove(*pods)
        return {"floor": floor, "daemon": daemon, "cpu": busy, "idle": rest, "resident": resident}

    async def probed_crowd(self, count: int, *, seconds: float) -> tuple[list[float], float]:
        """So many pods with a readiness probe a second: how late the probes are, and the daemon's share of a core."""
        async with ProbeServer().served() as server:
            names = [self.name("probed") for _ in range(count)]
            for name in names:
                target = {"host": "127.0.0.1", "port": server.port, "path": f"/{name}"}
                main = container("main", script(name), readinessProbe={"httpGet": target, "periodSeconds": 1})
                self.drop(name, self.manifest(name, [main], terminationGracePeriodSeconds=1))
            for name in names:
                await self.marks.at(f"{name}.started", within=600)
            await asyncio.sleep(5)
            cpu, then = self.cpu(), time.monotonic()
            late = await server.lateness(names, seconds=seconds)
            share = (self.cpu() - cpu) / (time.monotonic() - then)
            await self.remove(*names)
            return late, share


def told(what: str, value: float, goal: float, unit: str = "x") -> None:
    print(f"{what:64} {value:8.2f} {unit:3} goal {goal:g}  {'reached' if value <= goal else 'MISSED'}", flush=True)


async def ratio(what: str, goal: float, rows: Awaitable[tuple[list[float], list[float]]]) -> None:
    daemon, floor = (statistics.median(row) for row in await rows)
    told(f"{what} ({daemon * 1000:.0f} ms / {floor * 1000:.0f} ms)", daemon / floor, goal)


async def bench(node: PrivateNode, options: argparse.Namespace) -> None:
    node_facts = node_context(
        node_name="bench",
        root_dir=node.base / "floor",
        log_dir=node.base / "floor-logs",
        systemd_cgroups=False,
        cgroup_root=node.containerd.cgroup_root,
    )
    async with connect(node.containerd.socket) as channel, Marks(node.base / "marks").watched() as marks:
        floor = Floor(cri=CRIClient(channel), images=ImageService(channel), node=node_facts, marks=marks.folder)
        it = Bench(node, marks, floor)
        await it.start_ratio(2, 0)  # warm: the first container unpacks the image
        await ratio("drop to first process, 1 container", 1.15, it.start_ratio(options.rounds, 0))
        await ratio("drop to main, 5 sidecars", 1.15, it.start_ratio(max(options.rounds // 2, 3), 5))
        first, second = await it.stop_latency(options.rounds)
        told("main's exit to the last sidecar's SIGTERM", statistics.median(first) * 1000, 50, "ms")
        told("a sidecar's exit to the next one's SIGTERM", statistics.median(second) * 1000, 50, "ms")
        await ratio("exit to restarted process, against create + start", 1.3, it.restart_ratio(options.rounds))
        jobs = JobBench(node, marks, floor)
        await ratio("main's exit to Complete, 3 sidecars, against 3 stops", 1.3, jobs.completion(options.rounds))
        if options.jobs:
            found = await jobs.short_jobs(options.jobs)
            figures = f"({found['daemon']:.1f} s / {found['floor']:.1f} s)"
            told(
                f"{options.jobs} Jobs of 1 s at once, to all Complete {figures}", found["daemon"] / found["floor"], 1.2
            )
            print(f"processor time of the daemon meanwhile: {found['cpu']:.1f} s")
        if options.pods:
            found = await it.crowd(options.pods, idle=options.idle)
            figures = f"({found['daemon']:.1f} s / {found['floor']:.1f} s)"
            told(f"{options.pods} pods at once, to all running {figures}", found["daemon"] / found["floor"], 1.15)
            told(f"idle with {options.pods} pods, of one core", found["idle"] * 100, 0.5, "%")
            told(f"resident memory with {options.pods} pods", found["resident"], 90, "MiB")
            print(f"processor time of the daemon while they started: {found['cpu']:.1f} s")
            late, share = await it.probed_crowd(options.pods, seconds=20)
            told(f"latest of {len(late)} probes, {options.pods} pods, one a second each", max(late) * 1000, 100, "ms")
            print(f"processor time of the daemon meanwhile: {share * 100:.0f} % of one core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pods", type=int, default=100, help="how many at once in the crowd; 0 leaves it out")
    parser.add_argument("--jobs", type=int, default=200, help="how many Jobs of a second at once; 0 leaves it out")
    parser.add_argument("--idle", type=float, default=70, help="seconds for which the daemon at rest is watched")
    parser.add_argument("--containerd", default="containerd", help="another binary")
    options = parser.parse_args()
    node = PrivateNode(containerd=options.containerd)
    node.configure(f"maxPods: {max(options.pods, options.jobs, 110)}\n")
    try:
        node.create()
        node.start()
        asyncio.run(bench(node, options))
    finally:
        node.destroy()


if __name__ == "__main__":
    main()
