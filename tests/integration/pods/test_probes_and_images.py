"""Probes, hooks and image policies where it matters how containerd really behaves (PH 6, 7.4, CD 4, IM-3)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

import grpc.aio
import msgspec
import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, ExecAction, HTTPGetAction, LifecycleHandler, Pod, Probe, TCPSocketAction
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import ProbeResult, ProbeResults
from minikubelet.pods.hooks import HookError, run_hook
from minikubelet.pods.images import ImageError, ImagePuller
from minikubelet.pods.probes.handlers.base import SUCCESS, Attempt, Outcome, Target
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.command import Call, Settled
from minikubelet.pods.probes.handlers.http_client import HttpClient
from minikubelet.pods.probes.prober import ContainerProber
from minikubelet.pods.probes.runner import run_probe
from minikubelet.pods.pull_credentials import Found
from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.images import ImageService
from minikubelet.runtime.pb import cri_pb2
from tests.support.containerd import PrivateContainerd

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]

POD = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"))
#: Serves /w on 8080; ends when told to.
SERVE = "mkdir /w; echo fine >/w/index.html; httpd -p 8080 -h /w; trap exit TERM; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def containerd() -> Iterator[PrivateContainerd]:
    daemon = PrivateContainerd()
    try:
        daemon.start()
        daemon.load_images()
        yield daemon
    finally:
        daemon.destroy()


class Running:
    """One container that runs, and what is needed to probe it."""

    def __init__(self, cri: CRIClient, http: HttpClient, target: Target) -> None:
        self.cri = cri
        self.target = target
        self.clients = Clients(exec_sync=cri.exec_sync, http=http, runtime_answers=cri.answers)

    async def probe(self, probe: Probe) -> Attempt:
        async with asyncio.TaskGroup() as tasks:
            return await run_probe(probe, self.target, clients=self.clients, spawn=tasks.create_task)

    async def hook(self, *command: str) -> None:
        await run_hook(
            LifecycleHandler(exec=ExecAction(command=command)),
            pod=POD,
            container=self.target.container,
            container_id=self.target.container_id,
            address=lambda: self.target.address,
            clients=self.clients,
            recorder=Recorder(),
        )


class Recorder:
    def event(self, _pod: Pod, _event: Event) -> None:
        """Not what is looked at here."""


class NoCredentials:
    async def find(self, _repository: str, _pod: Pod | None = None) -> Found:
        return Found()


@contextlib.asynccontextmanager
async def channel_to(containerd: PrivateContainerd) -> AsyncIterator[grpc.aio.Channel]:
    async with connect(containerd.socket) as channel:
        yield channel


@pytest.fixture
async def running(containerd: PrivateContainerd) -> AsyncIterator[Running]:
    async with channel_to(containerd) as channel, HttpClient() as http:
        cri = CRIClient(channel)
        sandbox = cri_pb2.PodSandboxConfig(
            metadata=cri_pb2.PodSandboxMetadata(name="web", uid=f"u{time.monotonic_ns()}", namespace="d"),
            linux=cri_pb2.LinuxPodSandboxConfig(cgroup_parent=f"{containerd.cgroup_root}/web"),
        )
        sandbox_id = await cri.run_pod_sandbox(sandbox)
        config = cri_pb2.ContainerConfig(
            metadata=cri_pb2.ContainerMetadata(name="a"),
            image=cri_pb2.ImageSpec(image="busybox:1.36"),
            command=["sh", "-c", SERVE],
        )
        container_id = await cri.create_container(sandbox_id, config, sandbox_config=sandbox)
        await cri.start_container(container_id)
        address = (await cri.pod_sandbox_status(sandbox_id)).status.network.ip
        try:
            yield Running(cri, http, Target(container=Container(name="a"), container_id=container_id, address=address))
        finally:
            await cri.stop_pod_sandbox(sandbox_id)
            await cri.remove_pod_sandbox(sandbox_id)


def exec_probe(*command: str, timeout: int = 5) -> Probe:
    return Probe(exec=ExecAction(command=command), timeout_seconds=timeout)


# ---- probes -----------------------------------------------------------------------------
async def test_what_exec_probes_come_to(running: Running) -> None:
    assert await running.probe(exec_probe("true")) == SUCCESS
    failed = await running.probe(exec_probe("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert failed == Attempt(outcome=Outcome.FAILURE, output="out\nerr\n")
    unknown_to_a_shell = await running.probe(exec_probe("sh", "-c", "nosuch"))
    assert unknown_to_a_shell.outcome is Outcome.FAILURE, "PH 6.2: 127 of a shell is a failure"
    missing = await running.probe(exec_probe("/nosuch"))
    assert missing.outcome is Outcome.ERROR, "PH 6.1: a command that cannot be run never counts"
    assert missing.output.startswith("rpc error: code = Unknown desc = ")
    big = await running.probe(exec_probe("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x; exit 1"))
    assert big.output == "x" * 10240


async def test_a_command_that_takes_too_long(running: Running) -> None:
    began = time.monotonic()
    attempt = await running.probe(exec_probe("sleep", "10", timeout=1))
    assert attempt.output == 'command timed out: "sleep 10" timed out after 1s'
    assert 0.9 < time.monotonic() - began < 5


async def test_a_child_that_holds_the_output_does_not_hold_up_the_verdict(running: Running) -> None:
    calls: list[asyncio.Task[Settled]] = []

    def spawn(call: Call) -> asyncio.Task[Settled]:
        calls.append(asyncio.get_running_loop().create_task(call))
        return calls[-1]

    began = time.monotonic()
    probe = exec_probe("sh", "-c", "sleep 4; true", timeout=1)
    attempt = await run_probe(probe, running.target, clients=running.clients, spawn=spawn)
    verdict_after = time.monotonic() - began
    assert attempt.outcome is Outcome.FAILURE
    await asyncio.wait(calls)
    call_ended_after = time.monotonic() - began
    assert verdict_after < 3 < call_ended_after


async def test_a_child_that_holds_the_output_does_not_hold_up_the_next_runs(running: Running) -> None:
    probe = msgspec.structs.replace(
        exec_probe("sh", "-c", "sleep 600 & sleep 600", timeout=1), period_seconds=1, failure_threshold=3
    )
    failed: asyncio.Future[ProbeResult] = asyncio.get_running_loop().create_future()
    prober = ContainerProber(
        POD,
        Container(name="a", liveness_probe=probe),
        container_id=running.target.container_id,
        started_at=time.time(),
        address=lambda: "",
        seeds=ProbeResults(),
        on_result=lambda _id, _kind, result: failed.set_result(result),
        clients=running.clients,
        recorder=Recorder(),
    )
    task = asyncio.create_task(prober.run())
    async with asyncio.timeout(60):  # each would be held up for two minutes
        assert await failed is ProbeResult.FAILURE
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_http_and_tcp_probes_reach_the_pod(running: Running) -> None:
    for _ in range(50):  # httpd is about to listen
        if await running.probe(Probe(tcp_socket=TCPSocketAction(port=8080))) == SUCCESS:
            break
        await asyncio.sleep(0.1)
    assert await running.probe(Probe(http_get=HTTPGetAction(port=8080))) == SUCCESS
    missing = await running.probe(Probe(http_get=HTTPGetAction(port=8080, path="/missing")))
    assert missing.output == "HTTP probe failed with statuscode: 404"
    closed = await running.probe(Probe(http_get=HTTPGetAction(port=8081)))
    address = running.target.address
    assert closed.output == f'Get "http://{address}:8081/": dial tcp {address}:8081: connect: connection refused'


# ---- hooks ------------------------------------------------------------------------------
async def test_what_exec_hooks_come_to(running: Running) -> None:
    await running.hook("true")
    with pytest.raises(HookError) as failed:
        await running.hook("sh", "-c", "echo out; echo err >&2; exit 3")
    assert str(failed.value) == (
        'Exec lifecycle hook ([sh -c echo out; echo err >&2; exit 3]) for Container "a" in Pod "web_d(u)" failed'
        " - error: command 'sh -c echo out; echo err >&2; exit 3' exited with 3: err\n"
        ', message: "out\\nerr\\n"'
    )


async def test_a_hook_dies_with_its_container(running: Running) -> None:
    hook = asyncio.create_task(running.hook("sleep", "60"))
    await asyncio.sleep(0.5)
    assert not hook.done()
    await running.cri.stop_container(running.target.container_id, timeout=2)
    with pytest.raises(HookError, match=r"exited with 137: |CONTAINER_EXITED|rpc error"):
        await hook


# ---- images -----------------------------------------------------------------------------
def wanted(image: str, policy: str) -> Container:
    return Container(name="a", image=image, image_pull_policy=policy)


async def test_image_policies_against_what_is_there(containerd: PrivateContainerd) -> None:
    async with channel_to(containerd) as channel:
        puller = ImagePuller(ImageService(channel), credentials=NoCredentials(), recorder=Recorder(), clock=time.time)
        facts = await puller.ensure(POD, wanted("busybox:1.36", "IfNotPresent"))
        assert facts.ref.startswith("sha256:")
        assert facts == await puller.ensure(POD, wanted("docker.io/library/busybox:1.36", "Never"))
        for policy, image, reason in [
            ("Never", "nosuch.invalid/x:1", "ErrImageNeverPull"),
            ("IfNotPresent", "UPPER", "InvalidImageName"),
            ("IfNotPresent", "nosuch.invalid/x:1", "ErrImagePull"),
            ("Always", "nosuch.invalid/x:1", "ImagePullBackOff"),
        ]:
            with pytest.raises(ImageError) as refused:
                await puller.ensure(POD, wanted(image, policy))
            assert refused.value.error.reason == reason
