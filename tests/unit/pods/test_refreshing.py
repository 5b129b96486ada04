"""Telling of files that cannot be kept true (VO-13)."""

from __future__ import annotations

import asyncio
import types
from typing import cast

import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import Event
from minikubelet.pods.refreshing import Refreshing
from minikubelet.pods.services import Services
from minikubelet.pods.volumes import VolumeError

POD = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"))


@pytest.mark.parametrize(("stopping", "told"), [(False, ["FailedMount"]), (True, [])], ids=["runs", "is being stopped"])
async def test_what_is_missing_is_told_of_a_pod_that_is_to_run(*, stopping: bool, told: list[str]) -> None:
    events: list[Event] = []
    tried = asyncio.Event()

    async def refresh(_: Pod) -> None:
        if tried.is_set():  # the second time: what the first one led to is done
            raise asyncio.CancelledError
        tried.set()
        raise VolumeError("there is no ConfigMap")

    services = types.SimpleNamespace(
        volumes=types.SimpleNamespace(refresh=refresh),
        recorder=types.SimpleNamespace(event=lambda _, event: events.append(event)),
    )
    refreshing = Refreshing(lambda: POD, cast("Services", services), stopping=lambda: stopping)
    running = asyncio.create_task(refreshing.run())
    await tried.wait()
    refreshing.poke()
    await asyncio.wait([running])
    assert [event.reason for event in events] == told
