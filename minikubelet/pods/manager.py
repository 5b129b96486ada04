"""Makes the pods that run match the pods that are wanted: starts, updates, replaces and ends workers.

The daemon calls `apply` with each new desired set. A pod is known by its uid: another uid under the same namespace and name
is another pod, which waits (listed as Pending) until the old one is gone (LC 2, 12.4). A worker that fails for an
unforeseen reason is begun again with what it remembered; no pod can take another or the daemon down with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import structlog

from minikubelet.api.meta import key_of
from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import Memory
from minikubelet.pods.services import Services
from minikubelet.pods.worker import PodWorker

log = structlog.get_logger(__name__)

#: Seconds before a worker that failed is begun again, doubling.
_RESTART_FIRST, _RESTART_MAX = 1.0, 60.0


class Wanted(NamedTuple):
    pod: Pod
    file: str


class PodManager:
    """Runs inside a task group; use `serve`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._workers: dict[str, PodWorker] = {}  # by uid
        self._wanted: dict[str, Wanted] = {}  # by namespace/name
        self._tasks: asyncio.TaskGroup | None = None
        #: What the store remembered of pods that no worker has taken up yet, by uid.
        self._remembered: dict[str, tuple[Wanted, Memory]] = {}

    @contextlib.asynccontextmanager
    async def serve(self):  # noqa: ANN201
        """Take up what the store remembers. On leaving, workers end and their containers stay as they are."""
        self._remembered = await self.load()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            yield self

    async def load(self) -> dict[str, tuple[Wanted, Memory]]:
        """The stored pods. One that cannot be read (a downgrade, a damaged row) is left to the orphan rule."""
        found = {}
        for row in await self._services.store.load_pods():
            try:
                pod = msgspec.json.decode(row.pod, type=Pod)
                memory = msgspec.json.decode(row.memory, type=Memory)
            except msgspec.MsgspecError as error:
                log.warning("a stored pod cannot be read; its containers are adopted without it", uid=row.uid, error=str(error))
                continue
            found[row.uid] = (Wanted(pod, row.file), notes.restore(memory))
        return found

    @property
    def remembered(self) -> list[Wanted]:
        """Stored pods that were wanted when the daemon ended, for the sources' rule on who holds a name."""
        return [wanted for wanted, _ in self._remembered.values()]

    def apply(self, wanted: Mapping[str, Wanted]) -> None:
        """Make this the set of wanted pods, by namespace/name."""
        self._wanted = dict(wanted)
        uids = {it.pod.metadata.uid: it for it in wanted.values()}
        for uid, (stored, memory) in self._remembered.items():
            self._begin(uids.get(uid, stored), memory)
        self._remembered = {}
        for uid, worker in self._workers.items():
            if uid not in uids:
                worker.remove()
            elif not worker.removing:
                worker.update(uids[uid].pod, file=uids[uid].file)
        for key in self._wanted:
            self._begin_when_free(key)

    def adopt_orphan(self, pod: Pod) -> None:
        """End the containers of a pod that neither the store nor the folder knows, in the order of the pod they carry."""
        uid = pod.metadata.uid
        if uid not in self._workers and uid not in self._remembered:
            log.warning("found containers of a pod that is not known; they are ended in order", pod=key_of(pod.metadata), uid=uid)
            self._begin(Wanted(pod, ""), Memory(accepted_at=self._services.clock()))
            self._workers[uid].remove()

    def _begin_when_free(self, key: str) -> None:
        wanted = self._wanted.get(key)
        if wanted is None:
            return
        uid = wanted.pod.metadata.uid
        in_the_way = uid in self._workers or any(key_of(w.pod.metadata) == key for w in self._workers.values())
        if not in_the_way:
            self._begin(wanted, Memory(accepted_at=self._services.clock()))
        elif uid not in self._workers:
            self._services.live.put(msgspec.structs.replace(wanted.pod, status=PodStatus(phase="Pending")))

    def _begin(self, wanted: Wanted, memory: Memory) -> None:
        assert self._tasks is not None, "the manager is not serving"
        worker = PodWorker(wanted.pod, file=wanted.file, memory=memory, services=self._services)
        self._workers[worker.uid] = worker
        self._tasks.create_task(self._supervise(worker), name=f"pod {key_of(wanted.pod.metadata)}")

    async def _supervise(self, worker: PodWorker) -> None:
        delay = _RESTART_FIRST
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("a pod's worker failed; it begins again", uid=worker.uid, seconds=delay)
            worker.memory = notes.restore(worker.memory)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _RESTART_MAX)
        del self._workers[worker.uid]
        self._forget(worker)

    def _forget(self, worker: PodWorker) -> None:
        self._services.store.delete_pod(worker.uid)
        self._services.live.remove(worker.uid)
        self._begin_when_free(key_of(worker.pod.metadata))

    def wake_all(self) -> None:
        """The runtime is back, or anything else that concerns every pod."""
        for worker in self._workers.values():
            worker.wake()

    def runtime_changed(self, uid: str) -> None:
        if worker := self._workers.get(uid):
            worker.wake()
