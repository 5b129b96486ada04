"""Pull policies, reasons, back-off, credentials and the sharing of pulls (LC 6.1, 6.2, IM-2 to IM-10)."""

from __future__ import annotations

import asyncio

import pytest

from minikubelet.api.docker_config import Login
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import StartError
from minikubelet.pods.images import ImageError, ImagePuller
from minikubelet.pods.pull_credentials import Found
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.mapping import ImageFacts
from minikubelet.runtime.pb import cri_pb2

#: Unix time of the loop's second 0.
EPOCH = 1_000_000.0


def pod(uid: str = "u") -> Pod:
    return Pod(metadata=ObjectMeta(name="web", namespace="d", uid=uid))


def container(image: str = "busybox:1.36", *, policy: str = "IfNotPresent", name: str = "a") -> Container:
    return Container(name=name, image=image, image_pull_policy=policy)


class Runtime:
    """Images by the name they are asked for; pulls take so many seconds and fail as told."""

    def __init__(self, *present: str, seconds: float = 0.0) -> None:
        self.images = {name: self._image(name) for name in present}
        self.seconds = seconds
        self.pull_error: Exception | None = None
        self.status_error: Exception | None = None
        self.pulls: list[tuple[str, float]] = []
        self.auths: list[tuple[str, str] | None] = []
        #: With which alone it gives images.
        self.key = ""
        self.cancelled = 0

    @staticmethod
    def _image(name: str) -> cri_pb2.Image:
        return cri_pb2.Image(id=f"sha256:{name}", size=1234, uid=cri_pb2.Int64Value(value=65532), username="")

    async def status(self, image: str) -> cri_pb2.Image | None:
        if self.status_error:
            raise self.status_error
        return self.images.get(image.removeprefix("sha256:"))

    async def pull(self, image: str, *, auth: cri_pb2.AuthConfig | None = None) -> str:
        self.pulls.append((image, asyncio.get_running_loop().time()))
        self.auths.append((auth.username, auth.password) if auth else None)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.pull_error:
            raise self.pull_error
        if self.key and (auth is None or auth.password != self.key):
            raise ContainerRuntimeError(f"401 for {auth.username if auth else 'anybody'}")
        self.images[image] = self._image(image)
        return f"sha256:{image}"


class World:
    def __init__(self, runtime: Runtime, *, pulls_at_once: int | None = 1) -> None:
        self.runtime = runtime
        self.events: list[Event] = []
        #: What there is for pulls, by the uid of the pod that asks; "": for none.
        self.found: dict[str, Found] = {}
        #: What archives bring when they are asked.
        self.archived: set[str] = set()
        self.clock_set_by = 0.0
        self.puller = ImagePuller(
            runtime,
            credentials=self,
            archives=self,
            recorder=self,
            clock=self.clock,
            pulls_at_once=pulls_at_once,
        )

    def may_bring(self, image: str) -> bool:
        return image in self.archived

    async def bring(self, image: str) -> bool:
        if image not in self.archived:
            return False
        await asyncio.sleep(1)
        self.runtime.images[image] = self.runtime._image(image)
        return True

    async def find(self, repository: str, pod: Pod | None = None) -> Found:
        self.asked = repository
        return self.found.get(pod.metadata.uid if pod else "", Found())

    def clock(self) -> float:
        return EPOCH + self.clock_set_by + asyncio.get_running_loop().time()

    def event(self, _pod: Pod, event: Event) -> None:
        self.events.append(event)

    async def error(self, pod: Pod, container: Container) -> StartError:
        with pytest.raises(ImageError) as caught:
            await self.puller.ensure(pod, container)
        return caught.value.error

    def told(self) -> list[tuple[str, str, str]]:
        told = [(event.type, event.reason, event.message) for event in self.events]
        self.events.clear()
        return told


# ---- policies ----------------------------------------------------------------------------
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("policy", "present", "pulls"),
    [
        pytest.param("Always", True, 1, id="IM-3 Always pulls what is there"),
        pytest.param("Always", False, 1, id="IM-3 Always pulls what is not"),
        pytest.param("IfNotPresent", True, 0, id="IM-3 IfNotPresent takes what is there"),
        pytest.param("IfNotPresent", False, 1, id="IM-3 IfNotPresent pulls what is not"),
        pytest.param("Never", True, 0, id="IM-3 Never takes what is there"),
    ],
)
async def test_what_a_policy_does(policy: str, present: bool, pulls: int) -> None:
    world = World(Runtime(*(["busybox:1.36"] if present else [])))
    facts = await world.puller.ensure(pod(), container(policy=policy))
    assert facts == ImageFacts(ref="sha256:busybox:1.36", uid=65532)
    assert len(world.runtime.pulls) == pulls


async def test_an_image_that_is_there_is_told_of() -> None:
    world = World(Runtime("busybox:1.36"))
    await world.puller.ensure(pod(), container())
    text = 'Container image "busybox:1.36" already present on machine and can be accessed by the pod'
    assert world.told() == [("Normal", "Pulled", text)]


@pytest.mark.looptime
async def test_a_pull_is_told_of_with_its_times_and_size() -> None:  # IM-4
    world = World(Runtime(seconds=1.2))
    first, second = container("one:1", name="a"), container("two:1", name="b")
    await asyncio.gather(world.puller.ensure(pod(), first), world.puller.ensure(pod(), second))
    assert [event.message for event in world.events] == [
        'Pulling image "one:1"',
        'Pulling image "two:1"',
        'Successfully pulled image "one:1" in 1.2s (1.2s including waiting). Image size: 1234 bytes.',
        'Successfully pulled image "two:1" in 1.2s (2.4s including waiting). Image size: 1234 bytes.',
    ]


async def test_the_default_tag_goes_to_the_runtime_and_the_written_name_to_the_user() -> None:
    world = World(Runtime())
    await world.puller.ensure(pod(), container("busybox", policy="Always"))
    assert [image for image, _ in world.runtime.pulls] == ["busybox:latest"]
    assert world.events[0].message == 'Pulling image "busybox"'


# ---- what can go wrong besides a pull ---------------------------------------------------------
@pytest.mark.looptime
async def test_an_image_that_may_not_be_pulled() -> None:
    world = World(Runtime())
    text = 'Container image "busybox:1.36" is not present with pull policy of Never'
    assert await world.error(pod(), container(policy="Never")) == StartError(
        reason="ErrImageNeverPull", message=text, at=EPOCH, retry_at=EPOCH + 10
    )
    assert world.told() == [("Warning", "ErrImageNeverPull", text), ("Warning", "Failed", "Error: ErrImageNeverPull")]


async def test_a_name_that_is_none() -> None:
    world = World(Runtime())
    error = await world.error(pod(), container("UPPER"))
    assert error.reason == "InvalidImageName"
    assert error.message.startswith(
        'Failed to apply default image tag "UPPER": couldn\'t parse image name "UPPER": invalid reference format'
    )
    assert world.told() == [
        ("Warning", "InspectFailed", error.message),
        ("Warning", "Failed", "Error: InvalidImageName"),
    ]


async def test_a_runtime_that_cannot_say_whether_the_image_is_there() -> None:
    world = World(Runtime())
    world.runtime.status_error = ContainerRuntimeError("disk on fire")
    error = await world.error(pod(), container())
    assert (error.reason, error.message) == ("ImageInspectError", 'Failed to inspect image "": disk on fire')
    assert world.told() == [
        ("Warning", "InspectFailed", error.message),
        ("Warning", "Failed", "Error: ImageInspectError"),
    ]


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
async def test_a_runtime_that_is_away_is_no_fault_of_the_image(policy: str) -> None:
    world = World(Runtime())
    world.runtime.status_error = world.runtime.pull_error = RuntimeUnavailableError("connection refused")
    with pytest.raises(RuntimeUnavailableError):
        await world.puller.ensure(pod(), container(policy=policy))
    world.runtime.status_error = world.runtime.pull_error = None
    await world.puller.ensure(pod(), container(policy=policy))


# ---- failing pulls ------------------------------------------------------------------------------
@pytest.mark.looptime
async def test_a_failed_pull_is_shown_and_then_its_back_off() -> None:  # IM-5
    world = World(Runtime(seconds=1))
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    assert await world.error(pod(), container()) == StartError(
        reason="ErrImagePull",
        message="no such host",
        at=EPOCH + 1,
        retry_at=EPOCH + 11,
        later_reason="ImagePullBackOff",
        later_message='Back-off pulling image "busybox:1.36": ErrImagePull: no such host',
        later_at=EPOCH + 3,
    )
    assert world.told() == [
        ("Normal", "Pulling", 'Pulling image "busybox:1.36"'),
        ("Warning", "Failed", 'Failed to pull image "busybox:1.36": no such host'),
        ("Warning", "Failed", "Error: ErrImagePull"),
        ("Normal", "BackOff", 'Back-off pulling image "busybox:1.36"'),
        ("Warning", "Failed", "Error: ImagePullBackOff"),
    ]


@pytest.mark.looptime
async def test_the_back_off_doubles_to_five_minutes_and_is_forgotten_after_ten() -> None:
    world = World(Runtime())
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    delays = []
    for _ in range(7):
        error = await world.error(pod(), container())
        delays.append(error.retry_at - error.at)
        await asyncio.sleep(delays[-1])
    assert delays == [10, 20, 40, 80, 160, 300, 300]
    await asyncio.sleep(301)
    error = await world.error(pod(), container())
    assert error.retry_at - error.at == 10


@pytest.mark.looptime
async def test_no_pull_is_made_before_the_back_off_is_over() -> None:
    world = World(Runtime())
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    await world.error(pod(), container())
    world.told()
    await asyncio.sleep(9)
    assert await world.error(pod(), container(name="b")) == StartError(
        reason="ImagePullBackOff",
        message='Back-off pulling image "busybox:1.36": ErrImagePull: no such host',
        at=EPOCH + 9,
        retry_at=EPOCH + 10,
    )
    assert world.told() == [
        ("Normal", "BackOff", 'Back-off pulling image "busybox:1.36"'),
        ("Warning", "Failed", "Error: ImagePullBackOff"),
    ]
    assert len(world.runtime.pulls) == 1
    await asyncio.sleep(1)
    assert (await world.error(pod(), container())).reason == "ErrImagePull"


@pytest.mark.looptime
@pytest.mark.parametrize("back", [11.0, 3600.0, 86400.0])
async def test_a_clock_that_was_set_back_prolongs_no_back_off_of_pulls(back: float) -> None:
    world = World(Runtime())
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    await world.error(pod(), container())
    world.clock_set_by = -back
    await asyncio.sleep(10)
    again = await world.error(pod(), container())
    assert (again.reason, again.at, again.retry_at) == ("ErrImagePull", EPOCH - back + 10, EPOCH - back + 30)
    await asyncio.sleep(19)
    assert (await world.error(pod(), container())).retry_at == EPOCH - back + 30
    await asyncio.sleep(1)
    world.runtime.pull_error = None
    await world.puller.ensure(pod(), container())


@pytest.mark.looptime
async def test_a_back_off_holds_for_one_image_of_one_pod_only() -> None:
    world = World(Runtime())
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    await world.error(pod("u"), container())
    world.runtime.pull_error = None
    await world.puller.ensure(pod("u"), container("other:1"))
    await world.puller.ensure(pod("v"), container())
    await world.puller.ensure(pod("u"), container())  # now it is there, so the back-off does not matter (IM-6)
    assert [image for image, _ in world.runtime.pulls] == ["busybox:1.36", "other:1", "busybox:1.36"]


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        (
            "RegistryUnavailable: 503",
            "RegistryUnavailable",
            "image pull failed for busybox:1.36 because the registry is unavailable: 503",
        ),
        (
            "SignatureValidationFailed: no key",
            "SignatureValidationFailed",
            "image pull failed for busybox:1.36 because the signature validation failed: no key",
        ),
    ],
)
async def test_errors_that_are_reasons_of_their_own(text: str, reason: str, message: str) -> None:  # IM-5
    world = World(Runtime())
    world.runtime.pull_error = ContainerRuntimeError(text)
    error = await world.error(pod(), container())
    assert (error.reason, error.message) == (reason, message)
    assert error.later_message == f'Back-off pulling image "busybox:1.36": {reason}: {message}'
    assert ("Warning", "Failed", f"Error: {reason}") in world.told()


# ---- sharing and queueing --------------------------------------------------------------------------
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("pulls_at_once", "starts"),
    [
        pytest.param(1, [0, 3, 6], id="IM-7 one after the other"),
        pytest.param(2, [0, 0, 3], id="maxParallelImagePulls"),
        pytest.param(None, [0, 0, 0], id="no limit"),
    ],
)
async def test_pulls_are_queued(pulls_at_once: int | None, starts: list[float]) -> None:
    world = World(Runtime(seconds=3), pulls_at_once=pulls_at_once)
    await asyncio.gather(*(world.puller.ensure(pod(), container(f"i{number}:1")) for number in range(3)))
    assert [second for _, second in world.runtime.pulls] == starts


@pytest.mark.looptime
@pytest.mark.parametrize("policy", ["Always", "IfNotPresent"])
async def test_an_image_is_pulled_once_for_all_who_wait_for_it(policy: str) -> None:
    world = World(Runtime(seconds=3), pulls_at_once=None)
    pods = [pod(f"u{number}") for number in range(5)]
    found = await asyncio.gather(*(world.puller.ensure(it, container(policy=policy)) for it in pods))
    assert {facts.ref for facts in found} == {"sha256:busybox:1.36"}
    assert len(world.runtime.pulls) == 1
    assert world.puller._pulls._under_way == {}


@pytest.mark.looptime
async def test_all_who_wait_for_a_failing_pull_fail_each_with_its_own_back_off() -> None:
    world = World(Runtime(seconds=3))
    world.runtime.pull_error = ContainerRuntimeError("no such host")
    errors = await asyncio.gather(*(world.error(pod(f"u{number}"), container()) for number in range(3)))
    assert [(error.reason, error.retry_at) for error in errors] == [("ErrImagePull", EPOCH + 13)] * 3
    assert len(world.runtime.pulls) == 1


@pytest.mark.looptime
async def test_when_the_one_who_pulls_gives_up_the_next_goes_on() -> None:
    world = World(Runtime(seconds=3))
    first = asyncio.create_task(world.puller.ensure(pod("u"), container()))
    await asyncio.sleep(0)
    second = asyncio.create_task(world.puller.ensure(pod("v"), container()))
    await asyncio.sleep(2)
    first.cancel()
    assert (await second).ref == "sha256:busybox:1.36"
    assert world.runtime.cancelled == 1
    assert world.runtime.pulls == [("busybox:1.36", 0), ("busybox:1.36", 2)]


@pytest.mark.looptime
async def test_an_abandoned_pull_leaves_nothing_behind() -> None:
    world = World(Runtime(seconds=3))
    task = asyncio.create_task(world.puller.ensure(pod(), container()))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.puller._pulls._under_way == {}
    await world.puller.ensure(pod("v"), container("other:1"))
    assert asyncio.get_running_loop().time() == 4, "its place in the queue is free again"


# ---- credentials ---------------------------------------------------------------------------------
def logins(*passwords: str) -> Found:
    return Found(logins=tuple(Login(username=word.upper(), password=word) for word in passwords))


async def test_each_login_is_tried_until_one_is_good() -> None:
    world = World(Runtime())
    world.runtime.key, world.found["u"] = "second", logins("first", "second", "third")
    await world.puller.ensure(pod(), container("r.example:5000/a/b:1"))
    assert world.asked == "r.example:5000/a/b"
    assert world.runtime.auths == [("FIRST", "first"), ("SECOND", "second")]


async def test_without_a_login_one_pull_is_made_without() -> None:
    world = World(Runtime())
    await world.puller.ensure(pod(), container())
    assert world.runtime.auths == [None]


@pytest.mark.parametrize(
    ("passwords", "message"),
    [
        pytest.param(("bad",), "401 for BAD", id="IM-10 one"),
        pytest.param(("bad", "worse"), "[401 for BAD, 401 for WORSE]", id="IM-10 several"),
        pytest.param((), "401 for anybody", id="IM-8 none"),
    ],
)
async def test_when_none_is_good_all_errors_are_told(passwords: tuple[str, ...], message: str) -> None:
    world = World(Runtime())
    world.runtime.key, world.found["u"] = "good", logins(*passwords)
    error = await world.error(pod(), container())
    assert (error.reason, error.message) == ("ErrImagePull", message)
    assert ("Warning", "Failed", f'Failed to pull image "busybox:1.36": {message}') in world.told()


async def test_the_same_error_of_several_logins_is_told_once_and_without_a_password() -> None:
    world = World(Runtime())
    world.runtime.pull_error, world.found["u"] = ContainerRuntimeError("denied: hunter2"), logins("hunter2", "worse")
    error = await world.error(pod(), container())
    assert error.message == "denied: <secret>"
    assert "hunter2" not in repr(world.puller._failures) + str(world.told())


async def test_what_is_wrong_with_the_secrets_is_told_before_the_pull() -> None:
    world = World(Runtime())
    event = Event(type="Warning", reason="FailedToRetrieveImagePullSecret", message="no such")
    world.found["u"] = Found(events=(event,))
    await world.puller.ensure(pod(), container())
    assert [reason for _, reason, _ in world.told()] == [event.reason, "Pulling", "Pulled"]


@pytest.mark.looptime
async def test_a_pull_serves_only_those_with_the_same_credentials() -> None:
    world = World(Runtime(seconds=3), pulls_at_once=None)
    world.runtime.key = "good"
    world.found |= {"a": logins("good"), "b": logins("good"), "c": logins("bad")}
    pulls = (world.puller.ensure(pod(uid), container(policy="Always")) for uid in "abcd")
    first, second, third, fourth = await asyncio.gather(*pulls, return_exceptions=True)
    assert isinstance(first, ImageFacts)
    assert second == first
    assert isinstance(third, ImageError)
    assert isinstance(fourth, ImageError)
    assert world.runtime.auths == [("GOOD", "good"), ("BAD", "bad"), None]


@pytest.mark.looptime
async def test_other_credentials_know_no_back_off() -> None:
    world = World(Runtime())
    world.runtime.key, world.found["u"] = "good", logins("bad")
    await world.error(pod(), container())
    assert (await world.error(pod(), container())).reason == "ImagePullBackOff"
    world.found["u"] = logins("worse")
    error = await world.error(pod(), container())
    assert (error.reason, error.retry_at - error.at) == ("ErrImagePull", 10)
    world.found["u"] = logins("good")
    await world.puller.ensure(pod(), container())


@pytest.mark.looptime
async def test_credentials_that_appear_during_a_pull_are_tried_at_once() -> None:
    world = World(Runtime(seconds=3))
    world.runtime.key = "good"
    pull = asyncio.create_task(world.error(pod(), container()))
    await asyncio.sleep(1)
    world.found["u"] = logins("good")
    error = await pull
    assert error.retry_at == error.at == EPOCH + 3


async def test_a_pull_for_no_pod_takes_the_nodes_credentials() -> None:
    world = World(Runtime())
    world.runtime.key, world.found[""] = "good", logins("good")
    assert await world.puller.pull("busybox") == ImageFacts(ref="sha256:busybox:latest", uid=65532)
    world.found[""] = Found()
    with pytest.raises(ContainerRuntimeError, match="401"):
        await world.puller.pull("busybox")
    assert world.told() == []


# ---- archives ----------------------------------------------------------------------------
@pytest.mark.looptime
@pytest.mark.parametrize("policy", ["Never", "IfNotPresent"])
async def test_an_image_that_an_archive_brings_is_waited_for_and_not_pulled(policy: str) -> None:
    world = World(Runtime())
    world.archived = {"busybox:1.36"}
    facts = await world.puller.ensure(pod(), container(policy=policy))
    assert facts.ref == "sha256:busybox:1.36"
    assert world.runtime.pulls == []
    assert [event.reason for event in world.events] == ["Pulled"]


@pytest.mark.looptime
async def test_a_sandbox_waits_for_its_image_only_if_an_archive_may_bring_it() -> None:
    world = World(Runtime("there:1"))
    world.archived = {"there:1", "archived:1"}
    loop = asyncio.get_running_loop()
    for image, seconds in (("there:1", 0), ("elsewhere:1", 0), ("archived:1", 1), ("archived:1", 0)):
        began = loop.time()
        await world.puller.prepare(image)
        assert loop.time() - began == seconds
