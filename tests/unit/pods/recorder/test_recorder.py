from __future__ import annotations

import pytest
import structlog

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, Pod, PodSpec
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.recorder import EventRecorder, RecordedEvent


def pod(uid: str = "u") -> Pod:
    spec = PodSpec(containers=(Container(name="main"),), init_containers=(Container(name="side"),))
    return Pod(metadata=ObjectMeta(name="web", namespace="shop", uid=uid), spec=spec)


def event(message: str = "Container started", *, container: str = "main", kind: str = "Normal") -> Event:
    return Event(type=kind, reason="Started", message=message, container=container)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_equal_events_are_counted_and_move_to_the_end() -> None:
    clock = Clock()
    recorder = EventRecorder(clock=clock)
    recorder.event(pod(), event())
    recorder.event(pod(), event("other"))
    clock.now = 103.5
    recorder.event(pod(), event())
    assert [(it.event.message, it.count, it.first_at, it.last_at) for it in recorder.events()] == [
        ("other", 1, 100.0, 100.0),
        ("Container started", 2, 100.0, 103.5),
    ]


def test_the_same_event_of_another_pod_or_container_is_another_event() -> None:
    recorder = EventRecorder(clock=Clock())
    recorder.event(pod("u"), event())
    recorder.event(pod("v"), event())
    recorder.event(pod("u"), event(container="side"))
    assert [it.count for it in recorder.events()] == [1, 1, 1]
    assert [it.uid for it in recorder.events("v")] == ["v"]
    recorder.forget("u")
    assert [it.uid for it in recorder.events()] == ["v"]


@pytest.mark.parametrize(
    ("container", "path"),
    [("main", "spec.containers{main}"), ("side", "spec.initContainers{side}"), ("", "")],
)
def test_the_field_path_says_which_container(container: str, path: str) -> None:
    recorder = EventRecorder(clock=Clock())
    recorder.event(pod(), event(container=container))
    assert [it.field_path for it in recorder.events()] == [path]


def test_only_so_many_are_kept_and_the_stalest_goes_first() -> None:
    recorder = EventRecorder(clock=Clock(), capacity=2)
    for message in ("a", "b", "a", "c"):
        recorder.event(pod(), event(message))
    assert [it.event.message for it in recorder.events()] == ["a", "c"]


def test_a_probe_that_never_says_the_same_twice_drives_out_nothing_else() -> None:
    recorder = EventRecorder(clock=Clock())
    recorder.event(pod(), event("of another container", container="side"))
    for number in range(100):
        recorder.event(pod(), event(f"output {number}"))
        recorder.event(pod(), event("output 0"))
    kept = [it.event.message for it in recorder.events()]
    assert kept == ["of another container", *(f"output {number}" for number in range(81, 100)), "output 0"]
    recorder.forget("u")
    assert recorder.events() == []
    assert recorder._alike == {}


def test_subscribers_hear_of_each_event_until_they_leave() -> None:
    heard: list[RecordedEvent] = []
    recorder = EventRecorder(clock=Clock())
    leave = recorder.subscribe(heard.append)
    recorder.event(pod(), event())
    recorder.event(pod(), event())
    leave()
    recorder.event(pod(), event())
    assert [it.count for it in heard] == [1, 2]


def test_the_log_tells_of_a_repeated_event_once() -> None:
    recorder = EventRecorder(clock=Clock())
    with structlog.testing.capture_logs() as lines:
        recorder.event(pod(), event())
        recorder.event(pod(), event("probe failed", kind="Warning", container=""))
        recorder.event(pod(), event("probe failed", kind="Warning", container=""))
    assert [(line["log_level"], line["event"], line["pod"], line.get("container")) for line in lines] == [
        ("info", "Container started", "shop/web", "main"),
        ("warning", "probe failed", "shop/web", None),
        ("debug", "probe failed", "shop/web", None),
    ]
