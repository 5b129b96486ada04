"""Pulls of images: not too many at once, and one that several containers wait for is made only once.

A pull made with somebody's credentials serves only those who have the same ones. Used by `images.py` only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

import msgspec

from minikubelet.api.configuration import concealed
from minikubelet.api.docker_config import Login
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.pb import cri_pb2


class Images(Protocol):
    """What is needed of `runtime.images.ImageService`; raises the classes of `runtime.errors`."""

    async def status(self, image: str) -> cri_pb2.Image | None: ...
    async def pull(self, image: str, *, auth: cri_pb2.AuthConfig | None = None) -> str: ...


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds` without the wait for others' pulls."""

    ref: str
    seconds: float


class _SharedPull:
    """One pull and all who wait for it. Whoever holds the lock does it; `outcome` is there for the others."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.outcome: Pulled | ContainerRuntimeError | None = None


class Pulls:
    def __init__(self, images: Images, *, at_once: int | None) -> None:
        """`at_once`: None for any number."""
        self._images = images
        self._slots = asyncio.Semaphore(at_once) if at_once else contextlib.nullcontext()
        self._under_way: dict[
            tuple[str, tuple[Login, ...]], _SharedPull
        ] = {}  # by image name and what it is pulled with

    async def pull(self, name: str, logins: tuple[Login, ...]) -> Pulled:
        """Pull, or wait for the same pull that is under way; if its owner gives up the next goes on.

        Raises ContainerRuntimeError: of all tries, in one. Raises RuntimeUnavailableError: the runtime is away.
        """
        key = (name, logins)
        shared = self._under_way.setdefault(key, _SharedPull())
        shared.waiting += 1
        try:
            async with shared.lock:
                if shared.outcome is None:
                    shared.outcome = await self._pull_now(name, logins)
                    self._under_way.pop(key)
        finally:
            shared.waiting -= 1
            if not shared.waiting and self._under_way.get(key) is shared:
                del self._under_way[key]
        if isinstance(shared.outcome, ContainerRuntimeError):
            raise shared.outcome
        return shared.outcome

    async def _pull_now(self, name: str, logins: tuple[Login, ...]) -> Pulled | ContainerRuntimeError:
        """With one login after the other until a pull succeeds; without any if there is none (IM-8)."""
        problems = []
        async with self._slots:
            began = asyncio.get_running_loop().time()
            for login in logins or (None,):
                auth = cri_pb2.AuthConfig(username=login.username, password=login.password) if login else None
                try:
                    ref = await self._images.pull(name, auth=auth)
                except RuntimeUnavailableError:
                    raise
                except ContainerRuntimeError as problem:
                    problems.append(concealed(str(problem), (it.password for it in logins)))
                else:
                    return Pulled(ref=ref, seconds=asyncio.get_running_loop().time() - began)
        return ContainerRuntimeError(_aggregated(problems))


def _aggregated(problems: Sequence[str]) -> str:
    """The errors of several tries as one, each but once (IM-10)."""
    different = list(dict.fromkeys(problems))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"
