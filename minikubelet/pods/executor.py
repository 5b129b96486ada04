"""Carries out one action of a decision, and says what is to be remembered of it.

Called by `worker.py` only, in a task of its own for each action. A result is a `Note`: a pure change of memory, applied
by the worker when the action ends. What the runtime did is noted in `RuntimeState` before that, so the worker's next
decision sees it without waiting for an event. Sandboxes are made by `sandboxes.py`, containers by `starter.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import structlog

from minikubelet.api.pod import Container, LifecycleHandler, Pod
from minikubelet.lifecycle import actions as do
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import Memory, StartError
from minikubelet.lifecycle.view import find
from minikubelet.pods.hooks import HookError, run_hook
from minikubelet.pods.logs import remove_container_logs
from minikubelet.pods.sandboxes import create_sandbox
from minikubelet.pods.services import Services
from minikubelet.pods.starter import RETRY, Starter
from minikubelet.pods.tasks import Handle, uncut

log = structlog.get_logger(__name__)

Note = Callable[[Memory], Memory]


class Executor:
    """One for each worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._starter = Starter(services)

    async def carry_out(self, action: do.Action, *, pod: Pod, handle: Handle) -> Note | None:
        """Returns when the action has ended. What is noted then is all that is to be remembered of it.

        Raises RuntimeUnavailableError: containerd went away; the action is asked for anew when it is back.
        Raises ContainerRuntimeError, OSError: refused; worth another try later.
        Raises Abandoned: the pod is being stopped, the action was of no more use.
        """
        cri, state = self._services.cri, self._services.state
        match action:
            case do.CreateSandbox():
                await create_sandbox(pod, attempt=action.attempt, services=self._services, handle=handle)
            case do.StartContainer():
                return await self._starter.start(action, pod=pod, handle=handle)
            case do.RunPostStart():
                return await self._post_start(action, pod=pod, handle=handle)
            case do.RunPreStop():
                await self._pre_stop(action, pod=pod)
                return partial(notes.pre_stop_finished, name=action.name, container_id=action.container_id)
            case do.StopContainer():
                await cri.stop_container(action.container_id, timeout=action.timeout)
                await state.refresh(action.container_id)
            case do.RemoveContainer():
                if action.logs:  # first: without its record nobody would know of them (GC-1)
                    await remove_container_logs(
                        pod, action.name, container_id=action.container_id, state=state, node=self._services.node
                    )
                await uncut(cri.remove_container(action.container_id), name=action.key)
                state.note_removed(action.container_id)
            case do.StopSandbox():
                await uncut(cri.stop_pod_sandbox(action.sandbox_id), name=action.key)
                state.note_sandbox_stopped(action.sandbox_id)
            case do.RemoveSandbox():
                await uncut(cri.remove_pod_sandbox(action.sandbox_id), name=action.key)
                state.note_removed(action.sandbox_id)
        return None

    # ---- hooks ---------------------------------------------------------------------
    async def _post_start(self, action: do.RunPostStart, *, pod: Pod, handle: Handle) -> Note:
        container = find(pod, action.name)
        lifecycle = container and container.lifecycle
        error = None
        if container is not None and lifecycle and lifecycle.post_start:
            try:
                async with handle.may_cut():
                    await self._run_hook(
                        lifecycle.post_start, pod=pod, container=container, container_id=action.container_id
                    )
            except HookError as failure:
                now = self._services.clock()
                log.info("postStart hook failed", pod=pod.metadata.name, container=action.name, error=str(failure))
                error = StartError(reason="PostStartHookError", message=str(failure), at=now, retry_at=now + RETRY)
        return partial(notes.post_start_finished, container_id=action.container_id, error=error)

    async def _pre_stop(self, action: do.RunPreStop, *, pod: Pod) -> None:
        container = find(pod, action.name)
        lifecycle = container and container.lifecycle
        if container is None or not (lifecycle and lifecycle.pre_stop):
            return
        try:
            await self._run_hook(lifecycle.pre_stop, pod=pod, container=container, container_id=action.container_id)
        except HookError as failure:
            log.info("preStop hook failed", pod=pod.metadata.name, container=action.name, error=str(failure))
            self._services.recorder.event(
                pod,
                Event(type="Warning", reason="FailedPreStopHook", message="PreStopHook failed", container=action.name),
            )

    async def _run_hook(self, handler: LifecycleHandler, *, pod: Pod, container: Container, container_id: str) -> None:
        await run_hook(
            handler,
            pod=pod,
            container=container,
            container_id=container_id,
            address=lambda: pod_address(pod, self._services),
            clients=self._services.clients,
            recorder=self._services.recorder,
        )


def pod_address(pod: Pod, services: Services) -> str:
    """The IP at which the pod's containers are reached from this host; "" while there is none."""
    if pod.spec.host_network:
        return services.node.node_ip
    sandbox = services.state.observed(pod.metadata.uid).ready_sandbox()
    return sandbox.ips[0] if sandbox and sandbox.ips else ""
