from __future__ import annotations

from collections.abc import Collection

import pytest

from minikubelet.api.pod import Container, PodSpec
from minikubelet.api.pod_images import images_of
from minikubelet.api.volumes import ImageVolumeSource, Volume
from minikubelet.lifecycle import notes
from minikubelet.lifecycle.memory import Memory, StartError
from minikubelet.pods.image_news import ImageNews


def test_who_subscribes_hears_of_arrivals_until_leaving() -> None:
    news, told = ImageNews(), list[Collection[str]]()
    with news.subscribed(told.append):
        news.arrived(["x:1"])
    news.arrived(["y:1"])
    assert told == [["x:1"]]


def test_what_came_while_somebody_looked_is_known() -> None:
    news = ImageNews()
    news.arrived(["x:1"])
    moment = news.moment
    assert not news.since(moment, {"x:1", "y:1"})
    news.arrived(["y:1", "z:1"])
    assert news.since(moment, {"x:1", "y:1"})
    assert not news.since(moment, {"x:1"})


@pytest.mark.parametrize(
    ("error", "due"),
    [
        (StartError(reason="ErrImageNeverPull", message="", at=100, retry_at=110), 105),
        (StartError(reason="ImagePullBackOff", message="", at=100, retry_at=400), 105),
        (StartError(reason="ErrImagePull", later_reason="ImagePullBackOff", message="", at=100, retry_at=110), 105),
        (StartError(reason="ErrImageNeverPull", message="", at=100, retry_at=103), 103),
        (StartError(reason="CrashLoopBackOff", message="", at=100, retry_at=400), 400),
        (StartError(reason="CreateContainerConfigError", message="", at=100, retry_at=400), 400),
    ],
    ids=lambda it: it.reason if isinstance(it, StartError) else str(it),
)
def test_only_who_waits_for_an_image_need_not_wait_any_longer(error: StartError, due: float) -> None:
    memory = notes.retry_images(Memory(accepted_at=0, start_errors={"a": error}), now=105)
    assert memory.start_errors["a"].retry_at == due


def test_the_images_of_a_pod_by_their_full_names() -> None:
    spec = PodSpec(
        init_containers=(Container(name="i", image="busybox"),),
        containers=(Container(name="a", image="example.com/a:1"), Container(name="b", image="UPPER")),
        volumes=(Volume(name="v", image=ImageVolumeSource(reference=f"v:1@sha256:{'0' * 64}")),),
    )
    assert images_of(spec) == {
        "docker.io/library/busybox:latest",
        "example.com/a:1",
        f"docker.io/library/v@sha256:{'0' * 64}",
    }


def test_an_image_that_a_pod_names_by_its_id_is_known_by_that() -> None:
    identity = f"sha256:{'0' * 64}"
    assert identity in images_of(PodSpec(containers=(Container(name="a", image=identity),)))
