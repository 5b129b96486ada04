from __future__ import annotations

import time

from minikubelet.api.status import ContainerState, ContainerStatus, PodStatus, StateRunning, StateTerminated
from minikubelet.pods.times import booted_at, rfc3339, rfc3339_nano, runs_since_before


def test_moments_are_written_as_kubernetes_does() -> None:
    assert rfc3339(1.9) == "1970-01-01T00:00:01Z"
    assert rfc3339_nano(1.25) == "1970-01-01T00:00:01.250000000Z"


def test_the_boot_was_before_now() -> None:
    assert 0 < booted_at() < time.time()


def test_what_runs_since_before_a_boot_cannot_run_any_more() -> None:
    def shown(state: ContainerState) -> PodStatus:
        return PodStatus(container_statuses=(ContainerStatus(name="m", state=state),))

    running = shown(ContainerState(running=StateRunning(started_at=rfc3339(1000))))
    ended = shown(ContainerState(terminated=StateTerminated(started_at=rfc3339(1000), finished_at=rfc3339(1001))))
    assert runs_since_before(running, moment=2000)
    assert not runs_since_before(running, moment=500)
    assert not runs_since_before(ended, moment=2000)
