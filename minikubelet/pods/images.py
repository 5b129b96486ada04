"""The image of a container that is about to be made: is it there, may it be pulled, and what if that fails.

`pods/starter.py` calls `ImagePuller.ensure` before each start (LC 6.2, IM-2 to IM-10). One puller serves all pods; the
pulls themselves are made by `pulls.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol

import msgspec

from minikubelet.api.docker_config import Login
from minikubelet.api.image_name import ImageNameError, parse, with_default_tag
from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle import backoff
from minikubelet.lifecycle.actions import Event
from minikubelet.lifecycle.memory import BackoffEntry, StartError
from minikubelet.pods.gotext import duration
from minikubelet.pods.pull_credentials import Found
from minikubelet.pods.pulls import Images, Pulls
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.mapping import ImageFacts
from minikubelet.runtime.pb import cri_pb2

#: Seconds until a start is tried again that failed for another reason than a pull (LC 0).
_RETRY = 10.0
#: Seconds that a container shows ErrImagePull before it shows ImagePullBackOff, so that both can be seen.
_SHOW_ERROR = 2.0
#: What a runtime's error may begin with to become the reason itself, and how the rest is told (IM-5).
_NAMED_ERRORS = {
    "RegistryUnavailable": "because the registry is unavailable",
    "SignatureValidationFailed": "because the signature validation failed",
}


class ImageError(Exception):
    """The container cannot be started for want of its image; `error` says why and when to try again."""

    def __init__(self, error: StartError) -> None:
        super().__init__(f"{error.reason}: {error.message}")
        self.error = error


class Credentials(Protocol):
    """What is needed of `pull_credentials.PullCredentials`."""

    async def find(self, repository: str, pod: Pod | None = None) -> Found: ...


class Archives(Protocol):
    """What is needed of `sources.archives.ImageArchives`."""

    def may_bring(self, image: str) -> bool: ...
    async def bring(self, image: str) -> bool: ...


class _NoArchives:
    def may_bring(self, _image: str) -> bool:
        return False

    async def bring(self, _image: str) -> bool:
        return False


class Recorder(Protocol):
    def event(self, pod: Pod, event: Event) -> None: ...


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The last failed pull of an image for a pod, and the back-off it has led to."""

    reason: str
    message: str
    entry: BackoffEntry
    #: What was tried in vain: others may do better, so they need not wait.
    logins: tuple[Login, ...]


class ImagePuller:
    def __init__(
        self,
        images: Images,
        *,
        credentials: Credentials,
        archives: Archives | None = None,
        recorder: Recorder,
        clock: Callable[[], float],
        pulls_at_once: int | None = 1,
    ) -> None:
        """`clock` in unix seconds; `pulls_at_once`: None for any number (maxParallelImagePulls)."""
        self._images = images
        self._credentials = credentials
        self._archives = archives or _NoArchives()
        self._recorder = recorder
        self._clock = clock
        self._pulls = Pulls(images, at_once=pulls_at_once)
        self._failures: dict[str, _Failure] = {}  # by back-off key

    async def ensure(self, pod: Pod, container: Container) -> ImageFacts:
        """The container's image, pulled if its policy says so. May be cancelled at any point.

        Raises ImageError: with the reason to show. Raises RuntimeUnavailableError: the runtime is away.
        """
        request = _Request(pod, container, self._recorder, self._clock)
        try:
            name = with_default_tag(container.image)
        except ImageNameError as problem:
            text = f'Failed to apply default image tag "{container.image}": {problem}'
            request.fail("InvalidImageName", text, event="InspectFailed")
        if container.image_pull_policy != "Always":
            present = await self._inspect(name, request)
            if present is None and await self._archives.bring(name):
                present = await self._inspect(name, request)
            if present is not None:
                text = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
                request.tell("Normal", "Pulled", text)
                return ImageFacts.of(present)
            if container.image_pull_policy == "Never":
                text = f'Container image "{container.image}" is not present with pull policy of Never'
                request.fail("ErrImageNeverPull", text, event="ErrImageNeverPull")
        found = await self._credentials.find(parse(name).repository, pod)
        self._refuse_in_backoff(request, found.logins)
        for event in found.events:
            self._recorder.event(pod, event)
        return await self._pull(name, request, found.logins)

    async def prepare(self, image: str) -> None:
        """Wait for an image that an archive may bring, if it is not there; "": one of which the name is not known.

        May be cancelled at any point.
        """
        if self._archives.may_bring(image) and await self._images.status(image) is None:
            await self._archives.bring(image)

    async def pull(self, image: str) -> ImageFacts:
        """Pull an image that no pod asks for, with this node's own credentials. May be cancelled at any point.

        Raises ImageNameError. Raises ContainerRuntimeError: it could not be pulled; the message says why.
        """
        name = with_default_tag(image)
        found = await self._credentials.find(parse(name).repository)
        ref = (await self._pulls.pull(name, found.logins)).ref
        facts = await self._images.status(name)
        return ImageFacts(ref=ref) if facts is None else ImageFacts.of(facts)

    async def _inspect(self, name: str, request: _Request) -> cri_pb2.Image | None:
        try:
            return await self._images.status(name)
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError as problem:
            request.fail("ImageInspectError", f'Failed to inspect image "": {problem}', event="InspectFailed")

    def _refuse_in_backoff(self, request: _Request, logins: tuple[Login, ...]) -> None:
        """Raise ImageError while the last failed pull of this image for this pod is too recent (IM-6)."""
        failure = self._failures.get(request.backoff_key)
        if failure is None or failure.logins != logins:
            return
        now = self._clock()
        if now < failure.entry.last_update:
            return  # The clock was set back. Whoever asks has waited: the lifecycle holds each retry back by itself.
        due = backoff.check(failure.entry, failed_at=failure.entry.last_update, now=now, policy=backoff.IMAGE)
        if due is not None:
            request.tell_backoff()
            message = request.backoff_message(failure.reason, failure.message)
            raise ImageError(StartError(reason="ImagePullBackOff", message=message, at=now, retry_at=due))

    async def _pull(self, name: str, request: _Request, logins: tuple[Login, ...]) -> ImageFacts:
        image = request.container.image
        request.tell("Normal", "Pulling", f'Pulling image "{image}"')
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            pulled = await self._pulls.pull(name, logins)
        except RuntimeUnavailableError:
            raise
        except ContainerRuntimeError as problem:
            now_there = await self._credentials.find(parse(name).repository, request.pod)
            self._fail_pull(request, problem, logins, at_once=now_there.logins != logins)
        facts = await self._images.status(name)
        size = f" Image size: {facts.size} bytes." if facts is not None else ""
        took, waited = duration(pulled.seconds), duration(loop.time() - began)
        text = f'Successfully pulled image "{image}" in {took} ({waited} including waiting).{size}'
        request.tell("Normal", "Pulled", text)
        return ImageFacts(ref=pulled.ref) if facts is None else ImageFacts.of(facts)

    def _fail_pull(
        self, request: _Request, problem: ContainerRuntimeError, logins: tuple[Login, ...], *, at_once: bool
    ) -> NoReturn:
        """`at_once`: there are other credentials now, so it is to be tried again without a wait."""
        image, now = request.container.image, self._clock()
        reason, message = _classified(str(problem), image)
        request.tell("Warning", "Failed", f'Failed to pull image "{image}": {problem}')
        request.tell("Warning", "Failed", f"Error: {reason}")
        request.tell_backoff()
        before = self._failures.get(request.backoff_key)
        same = before is not None and before.logins == logins
        entry = backoff.advance(before.entry if before and same else None, failed_at=now, now=now, policy=backoff.IMAGE)
        self._failures = {key: it for key, it in self._failures.items() if _holds_back(it.entry, now)}
        self._failures[request.backoff_key] = _Failure(reason=reason, message=message, entry=entry, logins=logins)
        error = StartError(
            reason=reason,
            message=message,
            at=now,
            retry_at=now if at_once else now + entry.delay,
            later_reason="ImagePullBackOff",
            later_message=request.backoff_message(reason, message),
            later_at=now + _SHOW_ERROR,
        )
        raise ImageError(error) from problem


class _Request:
    """One container's need of its image, and how its events and errors are worded."""

    def __init__(self, pod: Pod, container: Container, recorder: Recorder, clock: Callable[[], float]) -> None:
        self.pod = pod
        self.container = container
        self.backoff_key = backoff.image_key(pod, container.image)
        self._recorder = recorder
        self._clock = clock

    def tell(self, kind: str, reason: str, message: str) -> None:
        event = Event(type=kind, reason=reason, message=message, container=self.container.name)
        self._recorder.event(self.pod, event)

    def tell_backoff(self) -> None:
        self.tell("Normal", "BackOff", f'Back-off pulling image "{self.container.image}"')
        self.tell("Warning", "Failed", "Error: ImagePullBackOff")

    def backoff_message(self, reason: str, message: str) -> str:
        return f'Back-off pulling image "{self.container.image}": {reason}: {message}'

    def fail(self, reason: str, message: str, *, event: str) -> NoReturn:
        self.tell("Warning", event, message)
        self.tell("Warning", "Failed", f"Error: {reason}")
        now = self._clock()
        raise ImageError(StartError(reason=reason, message=message, at=now, retry_at=now + _RETRY))


def _classified(text: str, image: str) -> tuple[str, str]:
    """Reason and message of a failed pull (IM-5)."""
    for reason, told in _NAMED_ERRORS.items():
        if text.startswith(reason):
            return reason, f"image pull failed for {image} {told}{text.removeprefix(reason)}"
    return "ErrImagePull", text


def _holds_back(entry: BackoffEntry, now: float) -> bool:
    return bool(backoff.prune({"": entry}, now=now, policy=backoff.IMAGE))
