"""Pods' cgroups as their workers use them (CG-4, CG-5, CG-7)."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from minikubelet.api.pod import Pod
from minikubelet.pods.cgroups import CgroupError, PodCgroups
from minikubelet.runtime.mapping.cgroup import CgroupLimits
from tests.unit.runtime.build import NODE, container, pod


class Driver:
    """Notes what is asked of it; `broken`: paths that cannot be made or removed."""

    def __init__(self) -> None:
        self.made: list[tuple[str, int]] = []
        self.removed: list[str] = []
        self.broken: set[str] = set()

    async def make(self, path: str, limits: CgroupLimits) -> None:
        if path in self.broken:
            raise PermissionError(13, "Permission denied", path)
        self.made.append((path, limits.cpu_shares))

    async def remove(self, path: str) -> None:
        if path in self.broken:
            raise OSError(16, "Device or resource busy", path)
        self.removed.append(path)

    def shares(self, path: str) -> int:
        return [shares for made, shares in self.made if made == path][-1]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def cgroups(driver: Driver) -> PodCgroups:
    return PodCgroups(NODE, driver)


def asking(uid: str, milli: int, **fields: Any) -> Pod:
    return pod(container(requests={"cpu": f"{milli}m"}), metadata={"uid": uid}, **fields)


async def test_cg_7_what_is_above_is_made_before_the_pod_and_once(cgroups: PodCgroups, driver: Driver) -> None:
    await cgroups.make(pod(container(), metadata={"uid": "1"}))
    await cgroups.make(pod(container(), metadata={"uid": "2"}))
    assert [path for path, _ in driver.made] == [
        "/kubepods",
        "/kubepods/besteffort",
        "/kubepods/burstable",
        "/kubepods/besteffort/pod1",
        "/kubepods/besteffort/pod2",
    ]


async def test_cg_5_burstable_pods_weigh_what_they_ask_for_while_they_are_active(
    cgroups: PodCgroups, driver: Driver
) -> None:
    before, first, second = asking("0", 250), asking("1", 250), asking("2", 500)
    cgroups.adopt(before)
    await cgroups.make(first)
    assert driver.shares("/kubepods/burstable") == 512
    await cgroups.make(second)
    assert driver.shares("/kubepods/burstable") == 1024
    await cgroups.remove(first)
    await cgroups.remove(before)
    assert driver.shares("/kubepods/burstable") == 512
    assert driver.removed == ["/kubepods/burstable/pod1", "/kubepods/burstable/pod0"]


async def test_what_cannot_be_made_is_told_and_tried_again(cgroups: PodCgroups, driver: Driver) -> None:
    driver.broken.add("/kubepods")
    with capture_logs() as logs:
        await cgroups.prepare()
    assert [entry["event"] for entry in logs] == ["the cgroups of pods cannot be made"]
    with pytest.raises(CgroupError, match=r"failed to create container for /kubepods/burstable/pod1 : .*denied"):
        await cgroups.make(asking("1", 250))
    driver.broken.clear()
    await cgroups.make(asking("1", 250))
    assert driver.shares("/kubepods/burstable/pod1") == 256


async def test_a_cgroup_that_does_not_go_holds_nothing_up(cgroups: PodCgroups, driver: Driver) -> None:
    await cgroups.make(asking("1", 250))
    driver.broken.add("/kubepods/burstable/pod1")
    with capture_logs() as logs:
        await cgroups.remove(asking("1", 250))
    assert [entry["event"] for entry in logs] == ["a pod's cgroup could not be removed"]
