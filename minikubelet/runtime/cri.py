"""A thin typed client of CRI's runtime service: one method per call, our own errors, and the right deadline for each.

`pods/` acts through it, `state.py` looks through it, `node/` cleans up with it. All methods raise the classes of
`errors.py`; ids are CRI's. Calls that make something must not be cut short (CD 5): their deadlines only guard against a
runtime that hangs for good, and callers let them end even when they are cancelled themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import grpc.aio
import msgspec

from minikubelet.runtime.channel import NAMESPACE
from minikubelet.runtime.errors import ContainerRuntimeError, NotFoundError, translated
from minikubelet.runtime.pb import cri_pb2, cri_pb2_grpc, tasks_pb2, tasks_pb2_grpc

#: Deadlines in seconds: of a call that only reads, of one that only asks for a sign of life, and of one that makes or
#: takes down.
_READ = 15
_AT_ONCE = 1
_MAKE = 240
#: What containerd says of a container that cannot be removed because it still has a task.
_HAS_TASK = "cannot delete running task"


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    stdout: bytes
    stderr: bytes


class CRIClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = cri_pb2_grpc.RuntimeServiceStub(channel)
        self._tasks = tasks_pb2_grpc.TasksStub(channel)

    # ---- the runtime itself ---------------------------------------------------------
    async def version(self) -> cri_pb2.VersionResponse:
        with translated():
            return await self._stub.Version(cri_pb2.VersionRequest(), timeout=_READ)

    async def answers(self) -> bool:
        """Whether it answers at once, so is neither away nor stuck."""
        try:
            with translated():
                await self._stub.Version(cri_pb2.VersionRequest(), timeout=_AT_ONCE)
        except ContainerRuntimeError:
            return False
        return True

    async def status(self, *, verbose: bool = False) -> cri_pb2.StatusResponse:
        """Conditions RuntimeReady and NetworkReady; `verbose` adds the plugin's configuration."""
        with translated():
            return await self._stub.Status(cri_pb2.StatusRequest(verbose=verbose), timeout=_READ)

    async def uses_systemd_cgroups(self) -> bool:
        """Which cgroup driver it has. Raises UnimplementedError before containerd 2 (CD 6)."""
        with translated():
            answer = await self._stub.RuntimeConfig(cri_pb2.RuntimeConfigRequest(), timeout=_READ)
        return answer.linux.cgroup_driver == cri_pb2.SYSTEMD

    # ---- sandboxes ------------------------------------------------------------------
    async def run_pod_sandbox(self, config: cri_pb2.PodSandboxConfig, *, handler: str = "") -> str:
        """Make and start a sandbox; its id. `adopt.run_sandbox` also copes with a name that is taken."""
        request = cri_pb2.RunPodSandboxRequest(config=config, runtime_handler=handler)
        with translated():
            return (await self._stub.RunPodSandbox(request, timeout=_MAKE)).pod_sandbox_id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Take down its network and SIGKILL what runs in it. Fine if it is stopped or gone."""
        try:
            with translated():
                request = cri_pb2.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
                await self._stub.StopPodSandbox(request, timeout=_MAKE)
        except NotFoundError:
            return

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove it and its containers. Fine if it is gone."""
        with translated():
            request = cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
            await self._stub.RemovePodSandbox(request, timeout=_MAKE)

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> cri_pb2.PodSandboxStatusResponse:
        request = cri_pb2.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        with translated():
            return await self._stub.PodSandboxStatus(request, timeout=_READ)

    async def list_pod_sandboxes(self, labels: dict[str, str] | None = None) -> list[cri_pb2.PodSandbox]:
        filter_ = cri_pb2.PodSandboxFilter(label_selector=labels)
        with translated():
            answer = await self._stub.ListPodSandbox(cri_pb2.ListPodSandboxRequest(filter=filter_), timeout=_READ)
        return list(answer.items)

    async def port_forward_url(self, sandbox_id: str, port: int) -> str:
        """The URL of a one-time stream to a port of the pod."""
        with translated():
            request = cri_pb2.PortForwardRequest(pod_sandbox_id=sandbox_id, port=[port])
            return (await self._stub.PortForward(request, timeout=_READ)).url

    # ---- containers -----------------------------------------------------------------
    async def create_container(
        self, sandbox_id: str, config: cri_pb2.ContainerConfig, *, sandbox_config: cri_pb2.PodSandboxConfig
    ) -> str:
        """Make a container; its id. A cut call usually completes anyway: see `adopt.create_container`."""
        request = cri_pb2.CreateContainerRequest(
            pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config
        )
        with translated():
            return (await self._stub.CreateContainer(request, timeout=_MAKE)).container_id

    async def start_container(self, container_id: str) -> None:
        """Start it. If that fails the container is Exited, 128 StartError, and no event tells of it (CD 3, 7)."""
        with translated():
            await self._stub.StartContainer(cri_pb2.StartContainerRequest(container_id=container_id), timeout=_MAKE)

    async def stop_container(self, container_id: str, *, timeout: int) -> None:  # noqa: ASYNC109
        """Stop signal now, SIGKILL after `timeout` seconds; returns when it is gone. Fine if it is stopped or gone.

        A second call with a shorter timeout, while the first is pending, takes effect. Cancelling cancels the SIGKILL.
        """
        try:
            with translated():
                request = cri_pb2.StopContainerRequest(container_id=container_id, timeout=timeout)
                await self._stub.StopContainer(request, timeout=timeout + _MAKE)
        except NotFoundError:
            return

    async def remove_container(self, container_id: str) -> None:
        """Remove it, running or not. Fine if it is gone."""
        request = cri_pb2.RemoveContainerRequest(container_id=container_id)
        try:
            with translated():
                await self._stub.RemoveContainer(request, timeout=_MAKE)
        except ContainerRuntimeError as error:
            if _HAS_TASK not in str(error):
                raise
            await self._delete_task(container_id)
            with translated():
                await self._stub.RemoveContainer(request, timeout=_MAKE)

    async def _delete_task(self, container_id: str) -> None:
        """Take down what a start whose client died can leave: a task that waits for ever and that CRI denies."""
        with contextlib.suppress(NotFoundError), translated():
            request = tasks_pb2.DeleteTaskRequest(container_id=container_id)
            await self._tasks.Delete(request, timeout=_MAKE, metadata=NAMESPACE)

    async def container_status(self, container_id: str) -> cri_pb2.ContainerStatus:
        with translated():
            request = cri_pb2.ContainerStatusRequest(container_id=container_id)
            return (await self._stub.ContainerStatus(request, timeout=_READ)).status

    async def list_containers(
        self, labels: dict[str, str] | None = None, *, sandbox_id: str = ""
    ) -> list[cri_pb2.Container]:
        filter_ = cri_pb2.ContainerFilter(label_selector=labels, pod_sandbox_id=sandbox_id)
        with translated():
            answer = await self._stub.ListContainers(cri_pb2.ListContainersRequest(filter=filter_), timeout=_READ)
        return list(answer.containers)

    async def update_container_resources(self, container_id: str, resources: cri_pb2.LinuxContainerResources) -> None:
        with translated():
            request = cri_pb2.UpdateContainerResourcesRequest(container_id=container_id, linux=resources)
            await self._stub.UpdateContainerResources(request, timeout=_MAKE)

    async def reopen_container_log(self, container_id: str) -> None:
        """After its log file was renamed: begin a new one. The container must run."""
        with translated():
            request = cri_pb2.ReopenContainerLogRequest(container_id=container_id)
            await self._stub.ReopenContainerLog(request, timeout=_READ)

    # ---- exec -----------------------------------------------------------------------
    async def exec_sync(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        timeout: int = 0,  # noqa: ASYNC109
        patience: float | None = None,
    ) -> ExecResult:
        """Run a command and wait for it and for all that holds its output. `timeout` in whole seconds, 0 = none.

        The runtime kills the command after `timeout`, but answers only when its children are gone, too (CD 4):
        `patience` gives up on the answer so many seconds later; without it the call may last as long as they live.

        Raises DeadlineExceededError: the command took too long.
        Raises ContainerRuntimeError: the container does not run, or has no such program.
        """
        request = cri_pb2.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout)
        deadline = timeout + patience if timeout and patience is not None else None
        with translated():
            answer = await self._stub.ExecSync(request, timeout=deadline)
        return ExecResult(exit_code=answer.exit_code, stdout=answer.stdout, stderr=answer.stderr)

    async def exec_url(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
    ) -> str:
        """The URL of a one-time stream for a command (CD 4); with `tty` there is no stderr."""
        request = cri_pb2.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr and not tty
        )
        with translated():
            return (await self._stub.Exec(request, timeout=_READ)).url

    async def attach_url(self, container_id: str, *, tty: bool = False, stdin: bool = False) -> str:
        """The URL of a one-time stream to the container's own process."""
        request = cri_pb2.AttachRequest(container_id=container_id, tty=tty, stdin=stdin, stdout=True, stderr=not tty)
        with translated():
            return (await self._stub.Attach(request, timeout=_READ)).url

    # ---- figures --------------------------------------------------------------------
    async def list_container_stats(self) -> list[cri_pb2.ContainerStats]:
        """Exited containers come without cpu and memory: test HasField."""
        with translated():
            answer = await self._stub.ListContainerStats(cri_pb2.ListContainerStatsRequest(), timeout=_READ)
        return list(answer.stats)

    async def pod_sandbox_stats(self, sandbox_id: str) -> cri_pb2.PodSandboxStats:
        """One by one, because a pod without cgroup_parent makes the list call fail as a whole (CD 6)."""
        with translated():
            request = cri_pb2.PodSandboxStatsRequest(pod_sandbox_id=sandbox_id)
            return (await self._stub.PodSandboxStats(request, timeout=_READ)).stats
