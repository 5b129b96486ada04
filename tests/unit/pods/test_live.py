from __future__ import annotations

import msgspec

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.pods.live import LivePods


def pod(uid: str, phase: str = "Pending") -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid), status=PodStatus(phase=phase))


def test_subscribers_hear_of_each_change_once_and_of_nothing_else() -> None:
    live = LivePods()
    heard: list[tuple[str, str | None]] = []
    end = live.subscribe(lambda uid, it: heard.append((uid, it.status.phase if it and it.status else None)))
    live.put(pod("a"))
    live.put(pod("a"))
    live.put(pod("a", "Running"))
    live.remove("a")
    live.remove("a")
    end()
    live.put(pod("b"))
    assert heard == [("a", "Pending"), ("a", "Running"), ("a", None)]


def test_the_encoded_pods_follow_every_change() -> None:
    live = LivePods()
    live.put(pod("a"))
    live.put(pod("b"))
    assert [msgspec.json.decode(it)["metadata"]["uid"] for it in live.encoded()] == ["a", "b"]
    live.put(pod("a", "Running"))
    live.remove("b")
    assert [msgspec.json.decode(it)["status"]["phase"] for it in live.encoded()] == ["Running"]
