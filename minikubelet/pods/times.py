"""Kubernetes' way of writing moments, and the moment of the host's boot."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from minikubelet.api.identity import SEEN_ANNOTATION
from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus


def rfc3339(seconds: float) -> str:
    """Unix seconds as Kubernetes shows times: UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_nano(seconds: float) -> str:
    """The same with nine digits of the second, as far as a float has them."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%S}.{int(seconds % 1 * 1e9):09d}Z"


def seen_at(pod: Pod) -> float | None:
    """When the daemon saw the pod first, in unix seconds, as its annotation tells (IN-8); None: it has none."""
    text = pod.metadata.annotations.get(SEEN_ANNOTATION, "")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def booted_at() -> float:
    """When this host was booted, in unix seconds."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def runs_since_before(status: PodStatus, *, moment: float) -> bool:
    """Whether the status shows a container as running that was started before the moment."""
    running = (it.state.running for it in (*status.init_container_statuses, *status.container_statuses))
    return any(it is not None and it.started_at is not None and it.started_at < rfc3339(moment) for it in running)
