"""Starts one container: image, files, CreateContainer, StartContainer; and says under which reason it failed (LC 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.api.pod_images import images_of
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Event, StartContainer
from minikubelet.lifecycle.memory import Memory, StartError
from minikubelet.lifecycle.records import Observed, ObservedContainer, RecordState
from minikubelet.lifecycle.view import find
from minikubelet.pods.images import ImageError
from minikubelet.pods.logs import link_container_log, make_log_directory
from minikubelet.pods.services import Services
from minikubelet.pods.slots import Turn
from minikubelet.pods.tasks import Abandoned, Handle, uncut
from minikubelet.pods.volumes import VolumeError
from minikubelet.runtime.adopt import create_container
from minikubelet.runtime.errors import ContainerRuntimeError, NameReservedError, NotFoundError, RuntimeUnavailableError
from minikubelet.runtime.mapping import (
    ContainerInputs,
    Environment,
    EnvironmentSourceError,
    HostnameError,
    MountError,
    MountSources,
    NonRootError,
    RuntimeClassError,
    UserNamespaceError,
    container_config,
    container_environment,
    hosts_file,
    sandbox_config,
)
from minikubelet.runtime.pb import cri_pb2

#: Seconds until a start that failed for its configuration or in the runtime is tried again (LC 0).
RETRY = 10.0

_HOSTS = Path("/etc/hosts")

#: What the runtime says of a start that was cut off because its client went away (CD 5).
_CUT_OFF = ("context canceled", "context deadline exceeded", "signal: killed")


def half_made(observed: Observed, memory: Memory) -> list[str]:
    """Ids of what starts that were cut short have left: these never ran, so they count as nothing."""
    return [
        record.id
        for record in observed.containers
        if record.id in memory.half_made or (f"start:{record.name}" not in memory.in_flight and _never_ran(record))
    ]


def _never_ran(record: ObservedContainer) -> bool:
    return record.state is RecordState.CREATED or _cut_off(record)


def _cut_off(record: ObservedContainer) -> bool:
    """Whether a container has exited and never ran: its start failed for want of a client, or was never done."""
    if record.state is not RecordState.EXITED:
        return False
    if record.reason == "StartError":
        return any(text in record.message for text in _CUT_OFF)
    return not record.started_at


_CONFIG_ERRORS = (
    VolumeError, MountError, EnvironmentSourceError, HostnameError, NonRootError, UserNamespaceError, RuntimeClassError,
    OSError,
)  # fmt: skip


class _StartFailedError(Exception):
    def __init__(self, reason: str, message: str, *, container_id: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.container_id = container_id


def text_of_event(message: str, *, container_id: str, name: str) -> str:
    """What the event says of a failure: by the container's name, not by an id that is another one each time (CC-11)."""
    return f"Error: {message.replace(container_id, name) if container_id else message}"


class Starter:
    """One for each worker: keeps the paths of the pod's volumes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        #: The spec whose volumes are ready, and their paths: an edit in place may add some.
        self._volumes: tuple[PodSpec, dict[str, str]] | None = None

    async def start(self, action: StartContainer, *, pod: Pod, handle: Handle) -> Callable[[Memory], Memory]:
        """The note of what became of it. Raises what `Executor.carry_out` raises."""
        container = find(pod, action.name)
        if container is None:  # an update of the manifest has dropped it since
            raise Abandoned
        version, environment = self._services.objects.version, Environment()
        news = self._services.image_news.moment
        images, uses = images_of(pod.spec), self._services.image_uses
        try:
            with uses.held(images):
                async with handle.may_cut():
                    await uses.settled(images)
                    config, environment = await self._config(action, pod, container)
                async with handle.slot(self._services.starts, Turn.CONTAINER):
                    container_id = await uncut(
                        self._create_and_start(action, pod, config, environment, handle),
                        name=f"{pod.metadata.name} {action.key} calls",
                    )
        except ImageError as failure:
            error = failure.error
            if self._services.image_news.since(news, images):  # it came while we looked
                error = msgspec.structs.replace(error, retry_at=min(error.retry_at, self._services.clock()))
            return partial(notes.start_failed, name=action.name, error=error)
        except _StartFailedError as failure:
            message, now = environment.conceal(str(failure)), self._services.clock()
            text = text_of_event(message, container_id=failure.container_id, name=action.name)
            self._event(pod, action.name, "Failed", text, kind="Warning")
            changed = failure.reason == notes.CONFIG_ERROR and self._services.objects.version != version
            error = StartError(reason=failure.reason, message=message, at=now, retry_at=now if changed else now + RETRY)
            return partial(notes.start_failed, name=action.name, error=error)
        self._event(pod, action.name, "Started", "Container started")
        return partial(
            notes.container_started,
            pod=pod,
            name=action.name,
            container_id=container_id,
            restart_count=action.restart_count,
        )

    async def _config(
        self, action: StartContainer, pod: Pod, container: Container
    ) -> tuple[cri_pb2.ContainerConfig, Environment]:
        """See to the image, make the files that the container needs, and its message."""
        services, uid = self._services, pod.metadata.uid
        try:
            if self._volumes is None or self._volumes[0] != pod.spec:
                self._volumes = (pod.spec, await services.volumes.setup(pod))
            _, volumes = self._volumes
            image, hosts, _ = await asyncio.gather(
                services.images.ensure(pod, container),
                self._hosts_file(pod),
                make_log_directory(pod, container.name, services.node),
            )
            images = await self._images(pod, container)
            sandbox = services.state.observed(uid).ready_sandbox()
            environment = container_environment(
                pod,
                container,
                services.node,
                objects=services.objects.now,
                pod_ips=sandbox.ips if sandbox else (),
            )
            inputs = ContainerInputs(
                restart_count=action.restart_count,
                image=image,
                environment=environment,
                first_id=await services.users.first_id(pod),
                mounts=MountSources(
                    volumes=volumes,
                    images=images,
                    subpaths=await services.volumes.subpaths(
                        pod, container, volumes=volumes, environment=environment.variables
                    ),
                    hosts_file=hosts,
                    termination_log=await services.volumes.termination_log(
                        uid, container.name, in_use=services.state.message_files(uid)
                    ),
                ),
            )
            return container_config(pod, container, services.node, inputs), environment
        except _CONFIG_ERRORS as error:
            raise _StartFailedError(notes.CONFIG_ERROR, str(error)) from error

    async def _images(self, pod: Pod, container: Container) -> dict[str, str]:
        """The images that the container has as volumes, pulled as its own is; the runtime's references by volume."""
        found = {}
        mounted = {mount.name for mount in container.volume_mounts} if self._services.node.image_volumes else set()
        for volume in pod.spec.volumes:
            if volume.image is not None and volume.name in mounted:
                wanted = msgspec.structs.replace(
                    container, image=volume.image.reference, image_pull_policy=volume.image.pull_policy
                )
                found[volume.name] = (await self._services.images.ensure(pod, wanted)).ref
        return found

    async def _hosts_file(self, pod: Pod) -> str | None:
        sandbox = self._services.state.observed(pod.metadata.uid).ready_sandbox()
        ips = sandbox.ips if sandbox else ()
        if not ips and not pod.spec.host_network:
            return None
        node_hosts = await asyncio.to_thread(_HOSTS.read_text, errors="replace") if pod.spec.host_network else ""
        content = hosts_file(pod, self._services.node, pod_ips=ips, node_hosts=node_hosts)
        return await self._services.volumes.write_hosts(pod.metadata.uid, content)

    async def _create_and_start(
        self,
        action: StartContainer,
        pod: Pod,
        config: cri_pb2.ContainerConfig,
        environment: Environment,
        handle: Handle,
    ) -> str:
        services = self._services
        state = services.state
        attempt = next((s.attempt for s in state.observed(pod.metadata.uid).sandboxes if s.id == action.sandbox_id), 0)
        sandbox, _ = sandbox_config(
            pod,
            services.node,
            attempt=attempt,
            resolv_conf=services.resolv_conf(),
            first_id=await services.users.first_id(pod),
        )
        try:
            container_id = await create_container(
                services.cri, action.sandbox_id, config, sandbox_config=sandbox, removed=state.note_removed
            )
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError as error:
            if isinstance(error, NotFoundError | NameReservedError):
                await state.relist(pod.metadata.uid)  # what is there differs from what we knew
            raise _StartFailedError("CreateContainerError", str(error)) from error
        state.note_created(
            container_id, sandbox_id=action.sandbox_id, config=config, log_directory=sandbox.log_directory
        )
        self._event(pod, action.name, "Created", "Container created")
        handle.check()
        try:
            await services.cri.start_container(container_id)
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError as error:
            if environment.conceal(str(error)) != str(error):  # the runtime's record of it would tell a secret
                await services.cri.remove_container(container_id)
                state.note_removed(container_id)
            else:
                await state.refresh(container_id)  # no event tells of it
            raise _StartFailedError("RunContainerError", str(error), container_id=container_id) from error
        state.note_started(container_id)
        await link_container_log(
            pod, action.name, container_id=container_id, log_path=config.log_path, node=services.node
        )
        return container_id

    def _event(self, pod: Pod, name: str, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._services.recorder.event(pod, Event(type=kind, reason=reason, message=message, container=name))
