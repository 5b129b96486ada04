"""Makes the pods that run match the pods that are wanted: starts, updates, replaces and ends workers.

The daemon calls `apply` with each new desired set. A pod is known by its uid: another uid under the same namespace and
name is another pod, which waits (listed as Pending) until the old one is gone (LC 2, 12.4). A worker that fails for an
unforeseen reason is begun again with what it remembered; no pod can take another or the daemon down with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import msgspec
import structlog

from minikubelet.api.meta import ObjectMeta, key_of
from minikubelet.api.pod import Pod
from minikubelet.api.qos import qos_class
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import Memory, StopCause
from minikubelet.pods.admission import Admission
from minikubelet.pods.live import LivePods
from minikubelet.pods.services import Services
from minikubelet.pods.shown import shown, waiting
from minikubelet.pods.times import booted_at, runs_since_before, seen_at
from minikubelet.pods.worker import PodWorker
from minikubelet.store.database import Store

log = structlog.get_logger(__name__)

#: Seconds before a worker that failed is begun again, doubling.
_RESTART_FIRST, _RESTART_MAX = 1.0, 60.0

_UNREACHED = "waits until the container runtime has been reached"
_UNREAD = "waits until the manifests have been read"
_UNKNOWN = "it is being looked at what is left of it"


class Wanted(NamedTuple):
    pod: Pod
    file: str


class PodManager:
    """First `load`, then `apply` and `serve` in any order: until it serves, pods are only listed."""

    def __init__(self, *, store: Store, live: LivePods, node_ip: str) -> None:
        """`node_ip`: this host's address as far as it is known before containerd is reached, or ""."""
        self._store = store
        self._live = live
        self._node_ip = node_ip
        self._workers: dict[str, PodWorker] = {}  # by uid
        self._wanted: dict[str, Wanted] | None = None  # by namespace/name; None: not known yet
        self._owned: dict[str, Wanted] = {}  # pods that no manifest defines, by namespace/name
        self._owned_keys: dict[str, str] = {}  # of those, by uid
        self._over: set[str] = set()  # uids of those that are to run no more
        #: What the store remembered of pods that no worker has taken up yet, by uid.
        self._remembered: dict[str, tuple[Wanted, Memory]] = {}
        self._services: Services | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._admission: Admission | None = None

    async def load(self) -> list[Wanted]:
        """Take up what the store remembers; returns the pods that were wanted when the daemon ended.

        One that cannot be read (a downgrade, a damaged row) is left to the orphan rule.
        """
        for row in await self._store.load_pods():
            try:
                pod = msgspec.json.decode(row.pod, type=Pod)
                memory = notes.restore(msgspec.json.decode(row.memory, type=Memory))
            except msgspec.MsgspecError as error:
                log.warning("a stored pod cannot be read; it is as if it were not known", uid=row.uid, error=str(error))
                continue
            self._remembered[row.uid] = (Wanted(pod, row.file), memory)
            ended = memory.status is not None and runs_since_before(memory.status, moment=booted_at())
            status = None if ended else memory.status  # nothing has outlived a boot: not Ready until looked at
            self._live.put(shown(pod, memory, status=status, node_ip=self._node_ip))
        return [wanted for wanted, memory in self._remembered.values() if not _is_removed(memory)]

    @contextlib.asynccontextmanager
    async def serve(self, services: Services) -> AsyncIterator[None]:
        """Run pods. On leaving, workers end and their containers stay as they are."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks, self._services = tasks, services
            self._admission = Admission(
                services.admit, live=self._live, recorder=services.recorder, clock=services.clock
            )
            unsubscribe = services.state.subscribe(self._runtime_changed)
            try:
                self._reconcile()
                yield
            finally:
                unsubscribe()
                self._tasks = None

    def apply(self, wanted: Mapping[str, Wanted]) -> None:
        """Make this the set of wanted pods, by namespace/name."""
        self._wanted = dict(wanted)
        self._reconcile()

    # ---- pods of Jobs ---------------------------------------------------------------
    def want(self, pod: Pod) -> None:
        """Run a pod that no manifest defines, until `unwant`; one that is known already goes on."""
        key, uid = key_of(pod.metadata), pod.metadata.uid
        if uid in self._owned_keys:
            return
        self._owned[key], self._owned_keys[uid] = Wanted(pod, ""), key
        if not self._reconciles:
            if self._live.get(uid) is None:
                self._list(pod, _UNREACHED if self._tasks is None else _UNREAD)
        else:
            self._begin_when_free(key)

    def keep(self, pod: Pod) -> None:
        """Keep what is left of such a pod, which is to run no more: what runs is ended, nothing is begun.

        To be called before the first reconciliation. Where nothing is left this changes nothing.
        """
        key, uid = key_of(pod.metadata), pod.metadata.uid
        if uid not in self._owned_keys and (uid in self._workers or not self._reconciles):
            self._owned[key], self._owned_keys[uid] = Wanted(pod, ""), key
            self._over.add(uid)
            if self._live.get(uid) is None:
                self._list(pod, _UNKNOWN)  # until it is known whether something is left of it

    def unwant(self, uid: str) -> None:
        """End such a pod in order; then nothing of it stays."""
        self._over.discard(uid)
        if (key := self._owned_keys.pop(uid, None)) is not None:
            del self._owned[key]
        if self._admission is not None:
            self._admission.forget(uid)
        if worker := self._workers.get(uid):
            worker.remove()
        elif uid not in self._remembered:
            self._live.remove(uid)

    def end(self, uid: str, *, grace: int | None = None) -> None:
        """End a pod in order, and keep what it leaves: its status, records and logs.

        `grace`: seconds that this may take at most, from now on.
        """
        if worker := self._workers.get(uid):
            worker.end(grace=grace)
        elif self._admission is not None and (key := self._owned_keys.get(uid)) is not None:
            self._admission.end(self._owned[key].pod)

    async def looked_at(self, uid: str) -> None:
        """Until the pod, if it runs here, has been looked at in the runtime since the daemon began."""
        if worker := self._workers.get(uid):
            await worker.looked.wait()

    # ---- by command ------------------------------------------------------------------
    def delete(self, uid: str, *, grace: int | None = None) -> None:
        """End a manifest's pod in order; as the manifest is there, the pod then begins anew. One that waits is asked
        about again. `grace` as for `end`.
        """
        if worker := self._workers.get(uid):
            worker.remove(grace=grace)
        elif self._admission is not None:
            self._admission.forget(uid)
            self._begin_what_can()

    def gone(self, uid: str) -> asyncio.Event:
        """Set when nothing is left of the pod that runs under this uid now."""
        if worker := self._workers.get(uid):
            return worker.gone
        gone = asyncio.Event()
        gone.set()
        return gone

    @property
    def _reconciles(self) -> bool:
        """What is wanted is known, and it serves."""
        return self._tasks is not None and self._wanted is not None

    def _reconcile(self) -> None:
        if self._wanted is None:
            return
        if self._tasks is None:
            for it in self._wanted.values():
                if self._live.get(it.pod.metadata.uid) is None:
                    self._list(it.pod, _UNREACHED)
            return
        uids = {it.pod.metadata.uid: it for it in (*self._owned.values(), *self._wanted.values())}
        remembered, self._remembered = self._remembered, {}
        for uid, (stored, memory) in remembered.items():
            now = stored if _is_removed(memory) else uids.get(uid, stored)
            self._begin(now if key_of(now.pod.metadata) == key_of(stored.pod.metadata) else stored, memory)
        self._take_up(uids)
        for uid, worker in self._workers.items():
            if uid not in uids or key_of(uids[uid].pod.metadata) != key_of(worker.pod.metadata):
                worker.remove()  # (a pod that keeps its uid under another name is another pod)
            elif not worker.removing:
                worker.update(uids[uid].pod, file=uids[uid].file)
        self._begin_what_can()
        for pod in self._live.all():
            if pod.metadata.uid not in self._workers and pod.metadata.uid not in uids:
                self._live.remove(pod.metadata.uid)  # it was waiting, and is not wanted any more
                if self._admission is not None:
                    self._admission.forget(pod.metadata.uid)

    def _take_up(self, wanted: Mapping[str, Wanted]) -> None:
        """Pods of which the runtime has something have begun, even if nothing of that was written down in time.

        They are not asked for room again. What then is left without a worker has not begun, or is gone.
        """
        if self._services is None:
            return
        for uid in self._services.state.uids():
            if uid in wanted and uid not in self._workers:
                carried = self._services.state.carried(uid)
                seen = seen_at(carried) if carried is not None else None
                self._begin(wanted[uid], Memory(accepted_at=time.time() if seen is None else seen))
        for uid in [*self._over]:
            if uid in self._workers:
                self._workers[uid].end()
            else:
                self.unwant(uid)

    def _list(self, pod: Pod, why: str) -> None:
        """Show a pod that has no worker, and why it has not begun."""
        status = PodStatus(phase="Pending", message=why, qos_class=qos_class(pod.spec))
        self._live.put(waiting(pod, self._live.get(pod.metadata.uid), status=status, now=time.time()))

    def end_orphan(self, uid: str, *, pod: Pod | None) -> None:
        """End the containers of a pod that neither the store nor the folder knows, in the order its sandbox carries."""
        if uid in self._workers:
            return
        pod = pod or Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid))
        log.warning("found containers of a pod that is not known; they are ended", pod=key_of(pod.metadata), uid=uid)
        self._begin(Wanted(pod, ""), Memory(accepted_at=time.time()))
        self._workers[uid].remove()

    def _begin_what_can(self) -> None:
        """Of the pods that have not begun, all that are free to and that there is room for."""
        if self._admission is None or self._tasks is None:
            return
        pods = [it.pod for it in (*self._owned.values(), *(self._wanted or {}).values())]
        for pod in self._admission.in_turn(pod for pod in pods if pod.metadata.uid not in self._workers):
            self._begin_when_free(key_of(pod.metadata))

    def _active(self) -> list[Pod]:
        """The pods that take up room: admitted, and not yet at their end."""
        return [worker.pod for worker in self._workers.values() if not worker.memory.stopped]

    def _begin_when_free(self, key: str) -> None:
        wanted = (self._wanted or {}).get(key) or self._owned.get(key)
        if wanted is None or wanted.pod.metadata.uid in self._workers:
            return
        same_name = (it for it in self._workers.values() if key_of(it.pod.metadata) == key and not it.yields)
        if (earlier := next(same_name, None)) is not None:
            self._list(wanted.pod, _after(earlier.file, wanted.file))
        elif self._admission is None or self._admission.lets_in(wanted.pod, active=self._active()):
            self._begin(wanted, Memory(accepted_at=time.time()))

    def _begin(self, wanted: Wanted, memory: Memory) -> None:
        if self._tasks is None or self._services is None:
            raise RuntimeError("the manager does not serve")
        worker = PodWorker(
            wanted.pod, file=wanted.file, memory=memory, services=self._services, on_ended=self._begin_what_can
        )
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
        self._store.delete_pod(worker.uid)
        self._live.remove(worker.uid)
        worker.gone.set()
        self._begin_what_can()

    def _runtime_changed(self, uid: str) -> None:
        if worker := self._workers.get(uid):
            worker.wake()


def _after(earlier: str, file: str) -> str:
    """`earlier`: the file of the pod that must be gone first; `file`: that of the one which waits."""
    if not earlier:
        which = "an earlier pod of the same name"
    elif earlier == file:
        which = "its previous version"
    else:
        which = f"the pod of the same name from {earlier}"
    return f"waits until {which} has ended"


def _is_removed(memory: Memory) -> bool:
    return memory.stopping is not None and memory.stopping.cause is StopCause.REMOVED
