"""The pods' room as Jobs need it: a `PodRunner` on the manager, the live pods and the runtime's records."""

from __future__ import annotations

from collections.abc import Callable

from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.jobs.runner import Seen, Subscriber
from minikubelet.lifecycle.records import RecordState
from minikubelet.pods.live import LivePods
from minikubelet.pods.manager import PodManager
from minikubelet.runtime.state import RuntimeState


class ManagedPods:
    def __init__(self, manager: PodManager, *, live: LivePods, state: RuntimeState) -> None:
        self._manager = manager
        self._live = live
        self._state = state

    def start(self, pod: Pod) -> None:
        self._manager.want(pod)

    def keep(self, pod: Pod) -> None:
        self._manager.keep(pod)

    def stop(self, uid: str) -> None:
        self._manager.end(uid)

    def remove(self, uid: str) -> None:
        self._manager.unwant(uid)

    def seen(self, uid: str) -> Seen | None:
        pod = self._live.get(uid)
        if pod is None:
            return None
        observed = self._state.observed(uid)
        times = {}
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            record = observed.newest(container.name)
            if record is not None and record.state is RecordState.EXITED and record.finished_at:
                times[container.name] = record.finished_at
        return Seen(status=pod.status or PodStatus(), finish_times=times)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        return self._live.subscribe(lambda uid, _pod: subscriber(uid))

    async def observed(self, uid: str) -> None:
        await self._manager.looked_at(uid)
