"""Which of containerd's containers scripts/uninstall takes for minikubelet's own, and for running."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from minikubelet.runtime.mapping import labels
from scripts.own_containers import OWNER, alive, line_of

ROOT = "/var/lib/minikubelet"
LISTING = """TASK    PID      STATUS    
a       15839    RUNNING
b       15951    STOPPED
c       7        PAUSED
"""  # noqa: W291 - as ctr prints it


def info(*, kind: str = "sandbox", owner: str | None = ROOT, **metadata: str) -> dict[str, Any]:
    config = {"annotations": {OWNER: owner}} if owner else {}
    stored = json.dumps({"Version": "v1", "Metadata": {"Config": config, **metadata}}).encode()
    extension = {"type_url": "github.com/containerd/cri/pkg/store/sandbox/Metadata", "value": base64.b64encode(stored)}
    named = {"io.cri-containerd.kind": kind, labels.POD_NAMESPACE: "shop", labels.POD_NAME: "web"}
    return {"ID": "a", "Labels": named, "Extensions": {f"io.cri-containerd.{kind}.metadata": extension}}


def test_the_mark_is_the_daemons() -> None:
    assert OWNER == labels.OWNER


def test_one_runs_if_it_has_a_task_that_has_not_ended() -> None:
    assert alive(LISTING) == {"a", "c"}
    assert alive("") == set()


@pytest.mark.parametrize(
    ("found", "alive", "line"),
    [
        (info(NetNSPath="/run/netns/x"), {"a"}, "a sandbox running shop/web /run/netns/x"),
        (info(kind="container"), set(), "a container ended shop/web -"),
        (info(owner="/srv/other"), {"a"}, None),
        (info(owner=None), {"a"}, None),
        ({"ID": "a", "Labels": None, "Extensions": None}, {"a"}, None),
        ({"ID": "a", "Labels": {"io.cri-containerd.kind": "sandbox"}, "Extensions": {}}, {"a"}, None),
    ],
    ids=["running", "ended", "of another root", "without mark", "made by ctr", "without metadata"],
)
def test_only_what_bears_the_mark_of_this_root_is_minikubelets(
    found: dict[str, Any], alive: set[str], line: str | None
) -> None:
    assert line_of(found, roots={ROOT}, alive=alive) == line
