"""Make sandboxes and containers so that a cut call, a lost reply or a name that is taken does no harm (CD 5).

`pods/executor.py` calls these; what was made is noted in `RuntimeState` before they return. They are not to be
cancelled: callers shield them. RuntimeUnavailableError means: ask `RuntimeState.lost`, then decide anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

import structlog

from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import (
    ContainerRuntimeError,
    NameReservedError,
    NotFoundError,
    RuntimeUnavailableError,
)
from minikubelet.runtime.mapping import labels
from minikubelet.runtime.pb import cri_pb2
from minikubelet.runtime.state import RuntimeState

log = structlog.get_logger(__name__)

#: Seconds between tries while somebody else's call on the same name is under way, and for how long.
_STEP, _PATIENCE = 0.1, 5.0


async def run_sandbox(
    cri: CRIClient, state: RuntimeState, config: cri_pb2.PodSandboxConfig, *, handler: str = ""
) -> str:
    """Make a sandbox; its id. With the name taken for good, the next attempt number is used (SB-1).

    Raises ContainerRuntimeError with the runtime's words; what the failure left behind is removed as far as possible.
    """
    config = _copy(config)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            sandbox_id = await cri.run_pod_sandbox(config, handler=handler)
        except NameReservedError as error:
            if (adopted := await _clear_sandbox_name(cri, state, error.holder, config)) is not None:
                return adopted
            if time.monotonic() > deadline:
                config.metadata.attempt += 1
                deadline = time.monotonic() + _PATIENCE
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError:
            await _sweep(cri, state, config)
            raise
        else:
            await _note_sandbox(cri, state, sandbox_id)
            return sandbox_id


async def create_container(
    cri: CRIClient,
    state: RuntimeState,
    sandbox_id: str,
    config: cri_pb2.ContainerConfig,
    *,
    sandbox_config: cri_pb2.PodSandboxConfig,
) -> str:
    """Make a container; its id. One of that name that a lost reply has left is removed first: it never ran.

    Raises NameReservedError: a container that ran has the name; the state has been looked through anew.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            container_id = await cri.create_container(sandbox_id, config, sandbox_config=sandbox_config)
        except NameReservedError as error:
            if await _clear_container_name(cri, state, error.holder):
                continue
            if time.monotonic() > deadline:
                await state.relist(config.labels[labels.POD_UID])
                raise
            await asyncio.sleep(_STEP)
        else:
            directory = sandbox_config.log_directory
            state.note_created(container_id, sandbox_id=sandbox_id, config=config, log_directory=directory)
            return container_id


async def start_container(cri: CRIClient, state: RuntimeState, container_id: str) -> None:
    """Start it. If that fails it is Exited, 128 StartError, also in the state; raises ContainerRuntimeError."""
    try:
        await cri.start_container(container_id)
    except RuntimeUnavailableError:
        raise
    except ContainerRuntimeError:
        await state.refresh(container_id)
        raise
    with contextlib.suppress(ContainerRuntimeError):
        await state.refresh(container_id)
    state.note_started(container_id)


async def _note_sandbox(cri: CRIClient, state: RuntimeState, sandbox_id: str) -> None:
    """Only its status has the address."""
    state.note_sandbox((await cri.pod_sandbox_status(sandbox_id)).status)


async def _clear_sandbox_name(
    cri: CRIClient, state: RuntimeState, holder: str, config: cri_pb2.PodSandboxConfig
) -> str | None:
    """See to a sandbox that has our name: adopt it if it is whole, remove it if it is not, or give it a moment."""
    try:
        status = (await cri.pod_sandbox_status(holder)).status
    except NotFoundError:
        await asyncio.sleep(_STEP)  # being made or unmade: not listed, but the name stays taken for up to a second
        return None
    if status.state == cri_pb2.SANDBOX_READY and status.annotations == config.annotations:
        log.info("took over a sandbox whose making had been cut short", sandbox=holder)
        state.note_sandbox(status)
        return holder
    try:
        await _remove_sandbox(cri, state, holder)
    except RuntimeUnavailableError:
        raise
    except ContainerRuntimeError as error:
        # containerd 1.6 cannot remove one while CNI is broken: it goes later, with the pod.
        log.warning("a sandbox that was left behind cannot be removed yet", sandbox=holder, error=str(error))
        config.metadata.attempt += 1
    return None


async def _sweep(cri: CRIClient, state: RuntimeState, config: cri_pb2.PodSandboxConfig) -> None:
    """After a failure (of CNI, mostly) a sandbox that is not ready may be left, and hold the name."""
    uid = config.metadata.uid
    try:
        for sandbox in await cri.list_pod_sandboxes({labels.POD_UID: uid}):
            if sandbox.metadata == config.metadata and sandbox.state == cri_pb2.SANDBOX_NOTREADY:
                await _remove_sandbox(cri, state, sandbox.id)
    except ContainerRuntimeError as error:
        log.warning("what a failed sandbox left behind cannot be removed yet", uid=uid, error=str(error))
        await state.relist(uid)


async def _remove_sandbox(cri: CRIClient, state: RuntimeState, sandbox_id: str) -> None:
    await cri.stop_pod_sandbox(sandbox_id)
    await cri.remove_pod_sandbox(sandbox_id)
    state.note_removed(sandbox_id)


async def _clear_container_name(cri: CRIClient, state: RuntimeState, holder: str) -> bool:
    """Remove a container that was made but never started. False: there is none such, or not yet."""
    try:
        status = await cri.container_status(holder)
    except NotFoundError:
        return False
    if status.state != cri_pb2.CONTAINER_CREATED:
        return False
    await cri.remove_container(holder)
    state.note_removed(holder)
    return True


def _copy(config: cri_pb2.PodSandboxConfig) -> cri_pb2.PodSandboxConfig:
    copy = cri_pb2.PodSandboxConfig()
    copy.CopyFrom(config)
    return copy
