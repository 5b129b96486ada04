"""Make sandboxes and containers so that a cut call, a lost reply or a name that is taken does no harm (CD 5).

`pods/` calls these instead of the bare calls. They are not to be cancelled: callers shield them.
RuntimeUnavailableError means: ask `RuntimeState.lost`, then decide anew. The id of each thing that was in the way and
has been removed goes to `removed` (`RuntimeState.note_removed`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

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
    good (or by somebody else, D-7) a higher attempt number than the config's is used.

    Raises ContainerRuntimeError with the runtime's words; what the failure left behind is removed as far as possible.
    """
    wanted = cri_pb2.PodSandboxConfig()
    wanted.CopyFrom(config)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await cri.run_pod_sandbox(wanted, handler=handler)
        except NameReservedError as error:
            holder = await _sandbox(cri, error.holder)
            if (
                holder is not None
                and holder.state == cri_pb2.SANDBOX_READY
                and holder.annotations == wanted.annotations
            ):
                log.info("took over a sandbox whose making had been cut short", sandbox=holder.id)
                return holder.id
            if not await _make_way(cri, holder, wanted, removed=removed) or time.monotonic() > deadline:
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

    Raises NameReservedError: a container that has run, or is not ours, has the name.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return await cri.create_container(sandbox_id, config, sandbox_config=sandbox_config)
        except NameReservedError as error:
            try:
                holder = await cri.container_status(error.holder)
            except NotFoundError:
                # Being made or unmade: not known, but the name is taken.
                if time.monotonic() > deadline:
                    raise error from None
                await asyncio.sleep(_STEP)
                continue
            if holder.state != cri_pb2.CONTAINER_CREATED or not _same_owner(holder.annotations, config.annotations):
                raise
            await cri.remove_container(holder.id)
            removed(holder.id)


async def _sandbox(cri: CRIClient, sandbox_id: str) -> cri_pb2.PodSandboxStatus | None:
    try:
        return (await cri.pod_sandbox_status(sandbox_id)).status
    except NotFoundError:
        return None


async def _make_way(
    cri: CRIClient,
    holder: cri_pb2.PodSandboxStatus | None,
    config: cri_pb2.PodSandboxConfig,
    *,
    removed: Callable[[str], None],
) -> bool:
    """Remove what has our name, or give it a moment if it is just being made or unmade. False: it does not go."""
    if holder is None:
        await asyncio.sleep(_STEP)
        return True
    if not _same_owner(holder.annotations, config.annotations):
        log.warning("somebody else's sandbox has the name of ours", sandbox=holder.id)
        return False
    try:
        await _remove(cri, holder.id, removed=removed)
    except RuntimeUnavailableError:
        raise
    except ContainerRuntimeError as error:
        # containerd 1.6 cannot remove one while CNI is broken: it goes later, with the pod.
        log.warning("a sandbox that was left behind cannot be removed yet", sandbox=holder.id, error=str(error))
        return False
    return True


async def _sweep(cri: CRIClient, config: cri_pb2.PodSandboxConfig, *, removed: Callable[[str], None]) -> None:
    """After a failure (of CNI, mostly) a sandbox that is not ready may be left, and hold the name."""
    try:
        for sandbox in await cri.list_pod_sandboxes({labels.POD_UID: config.metadata.uid}):
            left_behind = sandbox.metadata == config.metadata and sandbox.state == cri_pb2.SANDBOX_NOTREADY
            if left_behind and _same_owner(sandbox.annotations, config.annotations):
                await _remove(cri, sandbox.id, removed=removed)
    except ContainerRuntimeError as error:
        log.warning("what a failed sandbox left behind cannot be removed yet", error=str(error))


async def _remove(cri: CRIClient, sandbox_id: str, *, removed: Callable[[str], None]) -> None:
    await cri.stop_pod_sandbox(sandbox_id)
    await cri.remove_pod_sandbox(sandbox_id)
    removed(sandbox_id)


def _same_owner(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    return left.get(labels.OWNER) == right.get(labels.OWNER)
