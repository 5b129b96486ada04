"""Makes a pod's sandbox: cgroup, volumes, log folder, then RunPodSandbox; tried until it works (SB-5, VO-2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from minikubelet.api.objects import refs_of
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.pods.cgroups import CgroupError
from minikubelet.pods.logs import make_log_directory
from minikubelet.pods.services import Services
from minikubelet.pods.slots import Turn
from minikubelet.pods.tasks import Handle, uncut
from minikubelet.pods.volumes import VolumeError
from minikubelet.pods.volumes.manager import RETRY as VOLUME_RETRY
from minikubelet.runtime.adopt import run_sandbox
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.mapping import DNSError, HostnameError, RuntimeClassError, UserNamespaceError, sandbox_config

#: Seconds between tries to make a sandbox.
_RETRY = BackoffPolicy(initial=1.0, factor=2.0, maximum=10.0)
#: As things are there is no message for the runtime.
_NO_CONFIG = (HostnameError, DNSError, UserNamespaceError, RuntimeClassError)


async def create_sandbox(pod: Pod, *, attempt: int, services: Services, handle: Handle) -> None:
    """Returns when the pod has its sandbox, and `RuntimeState` knows it.

    What fails is told as an event and tried again, for as long as the pod is wanted. Raises Abandoned when it no longer
    is, RuntimeUnavailableError when containerd went away.
    """

    def image_arrived(names: Collection[str]) -> None:
        # containerd 2 does not say which image it is.
        if services.node.sandbox_image in {"", *names}:
            changed.set()

    with (
        services.objects.watched(lambda: refs_of(pod)) as changed,
        services.image_news.subscribed(image_arrived),
    ):
        await _try_until_made(pod, attempt=attempt, services=services, handle=handle, changed=changed)


async def _try_until_made(
    pod: Pod, *, attempt: int, services: Services, handle: Handle, changed: asyncio.Event
) -> None:
    """`changed`: something that the pod refers to has; no need to wait for the next try then."""
    delay, policy = 0.0, VOLUME_RETRY
    while True:
        changed.clear()
        try:
            await uncut(services.cgroups.make(pod), name=f"{pod.metadata.name} cgroup")
            async with handle.may_cut():
                await services.volumes.setup(pod)
                policy = _RETRY
                await make_log_directory(pod, "", services.node)
                await services.images.prepare(services.node.sandbox_image)
            async with handle.slot(services.starts, Turn.SANDBOX):
                await uncut(_run(pod, attempt, services), name=f"{pod.metadata.name} RunPodSandbox")
        except RuntimeUnavailableError:
            raise
        except CgroupError as error:
            reason, message = "FailedCreatePodContainer", f"unable to ensure pod container exists: {error}"
        except VolumeError as error:
            reason, message = "FailedMount", str(error)
        except (ContainerRuntimeError, *_NO_CONFIG) as error:
            reason, message = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}"
        except OSError as error:
            meta = pod.metadata
            named = f"{meta.name}_{meta.namespace}({meta.uid})"
            reason = "FailedCreatePodSandBox"
            message = f'Failed to create log directory for pod "{named}": {error}'
        else:
            return
        _tell(pod, services, reason, message)
        handle.hindered(message)
        delay = min(delay * policy.factor, policy.maximum) if delay else policy.initial
        async with handle.may_cut():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await changed.wait()
                    delay = 0.0


async def _run(pod: Pod, attempt: int, services: Services) -> None:
    handler = services.node.handler(pod.spec.runtime_class_name)
    first_id = await services.users.first_id(pod)
    try:
        resolv_conf = services.resolv_conf()
    except OSError as error:
        raise DNSError(str(error)) from error
    config, warnings = sandbox_config(pod, services.node, attempt=attempt, resolv_conf=resolv_conf, first_id=first_id)
    for warned in warnings:
        _tell(pod, services, warned.reason, warned.message)
    sandbox_id = await run_sandbox(services.cri, config, removed=services.state.note_removed, handler=handler)
    services.state.note_sandbox((await services.cri.pod_sandbox_status(sandbox_id)).status)


def _tell(pod: Pod, services: Services, reason: str, message: str) -> None:
    services.recorder.event(pod, Event(type="Warning", reason=reason, message=message))
