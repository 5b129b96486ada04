"""What a container's status says of its mounts (MT-3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minikubelet.api.status import ContainerStatus, PodStatus
from minikubelet.pods.mount_status import with_mounts
from tests.unit.runtime.build import container, pod


def mounts(*given: dict[str, Any], recursive: bool = False) -> list[Any]:
    of = container(volumeMounts=[{"name": "v", "mountPath": f"/{number}", **it} for number, it in enumerate(given)])
    status = PodStatus(phase="Running", container_statuses=(ContainerStatus(name="main"),))
    (found,) = with_mounts(pod(of), status, recursive=recursive).container_statuses
    return list(msgspec.to_builtins(found)["volumeMounts"])


@pytest.mark.parametrize(
    ("mount", "recursive", "expected"),
    [
        (None, True, "Disabled"),
        ("Disabled", True, "Disabled"),
        ("IfPossible", True, "Enabled"),
        ("IfPossible", False, "Disabled"),
        ("Enabled", True, "Enabled"),
    ],
)
def test_mt_3_how_far_down_a_mount_is_read_only(mount: str | None, expected: str, *, recursive: bool) -> None:
    asked = {"readOnly": True} | ({"recursiveReadOnly": mount} if mount else {})
    shown = {"name": "v", "mountPath": "/0", "readOnly": True, "recursiveReadOnly": expected}
    assert mounts(asked, {}, recursive=recursive) == [shown, {"name": "v", "mountPath": "/1"}]


def test_every_container_shows_its_own_mounts_and_one_without_shows_none() -> None:
    side = container("side", restartPolicy="Always", volumeMounts=[{"name": "v", "mountPath": "/s"}])
    status = PodStatus(
        phase="Running",
        init_container_statuses=(ContainerStatus(name="side"),),
        container_statuses=(ContainerStatus(name="main"),),
    )
    found = with_mounts(pod(init=(side,)), status, recursive=False)
    assert [it.mount_path for it in found.init_container_statuses[0].volume_mounts] == ["/s"]
    assert found.container_statuses == status.container_statuses
