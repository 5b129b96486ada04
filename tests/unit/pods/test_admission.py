"""What becomes of pods that the node refuses: some wait, the others are Failed (AD-2)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.pods.admission import Admission, Refusal
from minikubelet.pods.live import LivePods
from minikubelet.pods.recorder import EventRecorder
from tests.unit.runtime.build import pod

FULL = Refusal(reason="OutOfpods", message="full", passing=True)
NEVER = Refusal(reason="NodeAffinity", message="not here")


class Bench:
    """The node says `refusal`, whoever asks."""

    def __init__(self) -> None:
        self.refusal: Refusal | None = None
        self.asked: list[str] = []
        self.live = LivePods()
        self.recorder = EventRecorder(clock=lambda: 1000.0)
        self.admission = Admission(self._admit, live=self.live, recorder=self.recorder, clock=lambda: 1000.0)

    def _admit(self, of: Pod, _active: Sequence[Pod]) -> Refusal | None:
        self.asked.append(of.metadata.uid)
        return self.refusal

    def lets_in(self, of: Pod, refusal: Refusal | None) -> bool:
        self.refusal = refusal
        return self.admission.lets_in(of, active=[])

    def status(self, of: Pod) -> PodStatus:
        found = self.live.get(of.metadata.uid)
        assert found is not None
        assert found.status is not None
        return found.status


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_could_find_room_later_waits_and_says_so(bench: Bench) -> None:
    assert not bench.lets_in(pod(), FULL)
    status = bench.status(pod())
    assert (status.phase, status.reason, status.start_time) == ("Pending", "OutOfpods", None)
    assert status.message == "Pod was rejected: full; it is tried again when another pod ends"
    assert bench.lets_in(pod(), None)


def test_ad_2_any_other_is_failed_until_its_manifest_changes(bench: Bench) -> None:
    assert not bench.lets_in(pod(), NEVER)
    status = bench.status(pod())
    assert (status.phase, status.reason, status.message) == ("Failed", "NodeAffinity", "Pod was rejected: not here")
    assert status.start_time == "1970-01-01T00:16:40Z"
    assert status.qos_class == "BestEffort"
    assert (status.conditions, status.container_statuses) == ((), ())
    assert not bench.lets_in(pod(), None), "it is final"
    assert bench.asked == ["u-1"]
    changed = pod(nodeSelector={"a": "b"})
    assert bench.lets_in(changed, None)


def test_ad_2_an_event_is_told_for_each_new_reason(bench: Bench) -> None:
    for refusal in (FULL, FULL, NEVER):
        bench.lets_in(pod(), refusal)
    told = [(it.event.type, it.event.reason, it.event.message) for it in bench.recorder.events()]
    assert told == [("Warning", "OutOfpods", "full"), ("Warning", "NodeAffinity", "not here")]


@pytest.mark.parametrize("refusal", [FULL, None])
def test_a_pod_that_is_to_end_before_it_has_begun_never_begins(bench: Bench, refusal: Refusal | None) -> None:
    if refusal is not None:
        bench.lets_in(pod(), refusal)
    bench.admission.end(pod())
    assert bench.status(pod()).phase == "Failed"
    assert not bench.lets_in(pod(), None)


def test_one_that_is_forgotten_begins_afresh(bench: Bench) -> None:
    bench.lets_in(pod(), NEVER)
    bench.admission.forget("u-1")
    assert bench.lets_in(pod(), None)


def test_critical_pods_come_first_then_those_that_wait_already(bench: Bench) -> None:
    def named(uid: str, priority: str = "") -> Pod:
        of = pod(priorityClassName=priority)
        return msgspec.structs.replace(of, metadata=msgspec.structs.replace(of.metadata, uid=uid))

    new, waiting, longer = named("new"), named("waiting"), named("longer")
    critical = named("critical", "system-cluster-critical")
    for of in (longer, waiting):
        bench.lets_in(of, FULL)
    assert bench.admission.in_turn([new, waiting, longer, critical]) == [critical, longer, waiting, new]
