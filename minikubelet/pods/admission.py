"""Who may begin: asks the node's rule for each pod that is to begin, shows what it says, remembers who waits.

The rule is `node/admission.py`; the manager asks here before it makes a worker. A refused pod has no worker and nothing
in the runtime. One that could find room later waits as Pending and is asked about again whenever a pod has ended; any
other is Failed, as with the kubelet, until its manifest changes (AD-2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.api.priority import is_critical
from minikubelet.api.qos import qos_class
from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.live import LivePods
from minikubelet.pods.recorder import EventRecorder
from minikubelet.pods.shown import waiting
from minikubelet.pods.times import rfc3339

_REJECTED = "Pod was rejected: "
_WAITS = "; it is tried again when another pod ends"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod must not begin, in the kubelet's words. `passing`: room for it may appear."""

    reason: str
    message: str
    passing: bool = False


#: The node's rule for one pod beside the active ones; None: it may begin.
Admit = Callable[[Pod, Sequence[Pod]], Refusal | None]


class _Entry(msgspec.Struct, frozen=True):
    pod: Pod
    refusal: Refusal


class Admission:
    def __init__(self, admit: Admit, *, live: LivePods, recorder: EventRecorder, clock: Callable[[], float]) -> None:
        self._admit = admit
        self._live = live
        self._recorder = recorder
        self._clock = clock
        self._refused: dict[str, _Entry] = {}  # by uid, those that came first before the others

    def lets_in(self, pod: Pod, *, active: Sequence[Pod]) -> bool:
        """Whether the pod may begin. If not it is listed, and an event told, each time that the reason is a new one."""
        uid = pod.metadata.uid
        known = self._refused.get(uid)
        if known is not None and known.pod == pod and not known.refusal.passing:
            return False
        refusal = self._admit(pod, active)
        if refusal is None:
            self._refused.pop(uid, None)
            return True
        if known is None or known.refusal.reason != refusal.reason:
            event = Event(type="Warning", reason=refusal.reason, message=refusal.message)
            self._recorder.event(pod, event)
        self._refuse(pod, refusal)
        return False

    def end(self, pod: Pod) -> None:
        """A pod that has not begun is to end: it never begins."""
        known = self._refused.get(pod.metadata.uid)
        if known is None or known.refusal.passing:
            why = known.refusal if known is not None else Refusal(reason="NotStarted", message="it was not started")
            self._refuse(pod, msgspec.structs.replace(why, passing=False))

    def forget(self, uid: str) -> None:
        self._refused.pop(uid, None)

    def in_turn(self, pods: Iterable[Pod]) -> list[Pod]:
        """The order in which pods are to be asked about: critical ones, those that wait already, the others."""
        place = {uid: number for number, uid in enumerate(self._refused)}
        return sorted(pods, key=lambda pod: (not is_critical(pod.spec), place.get(pod.metadata.uid, len(place))))

    def _refuse(self, pod: Pod, refusal: Refusal) -> None:
        self._refused[pod.metadata.uid] = _Entry(pod, refusal)
        status = PodStatus(
            phase="Pending" if refusal.passing else "Failed",
            reason=refusal.reason,
            message=_REJECTED + refusal.message + (_WAITS if refusal.passing else ""),
            start_time=None if refusal.passing else rfc3339(self._clock()),
            qos_class=qos_class(pod.spec),
        )
        self._live.put(waiting(pod, self._live.get(pod.metadata.uid), status=status, now=self._clock()))
