"""Make sandboxes and containers so that a cut call, a lost reply or a name that is taken does no harm (CD 5).

`pods/` calls these instead of the bare calls. They are not to be cancelled: callers shield them.
RuntimeUnavailableError means: ask `RuntimeState.lost`, then decide anew. The id of each thing that was in the way and
has been removed goes to `removed` (`RuntimeState.note_removed`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

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

log = structlog.get_logger(__name__)

#: Seconds between tries while another call on the same name is under way, and for how long.
_STEP, _PATIENCE = 0.1, 5.0


async def run_sandbox(
    cri: CRIClient, config: cri_pb2.PodSandboxConfig, *, removed: Callable[[str], None], handler: str = ""
) -> str:
    """Make a sandbox; its id. A whole one of the same name is adopted, a broken one removed; with the name taken for
    good a higher attempt number than the config's is used.

    Raises ContainerRuntimeError with the runtime's words; what the failure left behind is removed as far as possible.
    """
    wanted = cri_pb2.PodSandboxConfig()
    wanted.CopyFrom(config)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await cri.run_pod_sandbox(wanted, handler=handler)
        except NameReservedError as error:
            if await _is_whole(cri, error.holder, wanted):
                log.info("took over a sandbox whose making had been cut short", sandbox=error.holder)
                return error.holder
            if not await _make_way(cri, error.holder, removed=removed) or time.monotonic() > deadline:
                wanted.metadata.attempt += 1
                deadline = time.monotonic() + _PATIENCE
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError:
            await _sweep(cri, wanted, removed=removed)
            raise


async def create_container(
    cri: CRIClient,
    sandbox_id: str,
    config: cri_pb2.ContainerConfig,
    *,
    sandbox_config: cri_pb2.PodSandboxConfig,
    removed: Callable[[str], None],
) -> str:
    """Make a container; its id. One of that name that a lost reply has left is removed first: it never ran.

    Raises NameReservedError: a container that has run has the name; RuntimeState should look through the pod.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await cri.create_container(sandbox_id, config, sandbox_config=sandbox_config)
        except NameReservedError as error:
            state = await _container_state(cri, error.holder)
            if state == cri_pb2.CONTAINER_CREATED:
                await cri.remove_container(error.holder)
                removed(error.holder)
            elif state is not None or time.monotonic() > deadline:
                raise
            else:
                await asyncio.sleep(_STEP)  # being made: not listed, but the name is taken


async def _is_whole(cri: CRIClient, sandbox_id: str, config: cri_pb2.PodSandboxConfig) -> bool:
    """Whether it is what we want to make: ready, and of the same pod and daemon."""
    try:
        status = (await cri.pod_sandbox_status(sandbox_id)).status
    except NotFoundError:
        return False
    return status.state == cri_pb2.SANDBOX_READY and status.annotations == config.annotations


async def _make_way(cri: CRIClient, sandbox_id: str, *, removed: Callable[[str], None]) -> bool:
    """Remove what has our name, or give it a moment if it is just being made or unmade. False: it does not go."""
    try:
        await cri.pod_sandbox_status(sandbox_id)
    except NotFoundError:
        await asyncio.sleep(_STEP)
        return True
    try:
        await _remove(cri, sandbox_id, removed=removed)
    except RuntimeUnavailableError:
        raise
    except ContainerRuntimeError as error:
        # containerd 1.6 cannot remove one while CNI is broken: it goes later, with the pod.
        log.warning("a sandbox that was left behind cannot be removed yet", sandbox=sandbox_id, error=str(error))
        return False
    return True


async def _sweep(cri: CRIClient, config: cri_pb2.PodSandboxConfig, *, removed: Callable[[str], None]) -> None:
    """After a failure (of CNI, mostly) a sandbox that is not ready may be left, and hold the name."""
    try:
        for sandbox in await cri.list_pod_sandboxes({labels.POD_UID: config.metadata.uid}):
            if sandbox.metadata == config.metadata and sandbox.state == cri_pb2.SANDBOX_NOTREADY:
                await _remove(cri, sandbox.id, removed=removed)
    except ContainerRuntimeError as error:
        log.warning("what a failed sandbox left behind cannot be removed yet", error=str(error))


async def _remove(cri: CRIClient, sandbox_id: str, *, removed: Callable[[str], None]) -> None:
    await cri.stop_pod_sandbox(sandbox_id)
    await cri.remove_pod_sandbox(sandbox_id)
    removed(sandbox_id)


async def _container_state(cri: CRIClient, container_id: str) -> cri_pb2.ContainerState.ValueType | None:
    try:
        return (await cri.container_status(container_id)).state
    except NotFoundError:
        return None
