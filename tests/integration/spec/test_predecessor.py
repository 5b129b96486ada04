"""A pod that waits for another one of its name says so (README 7)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.spec.conftest import Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def test_a_pod_says_that_it_waits_for_its_previous_version(lab: Lab) -> None:
    go = lab.node.base / "go-predecessor"
    go.mkdir(exist_ok=True)
    slow = sh(
        "trap 'until [ -e /go/go ]; do sleep 0.1; done; exit' TERM; while :; do sleep 0.1; done",
        volumeMounts=[{"name": "go", "mountPath": "/go"}],
    )
    spec: dict[str, Any] = {
        "containers": [slow],
        "volumes": [{"name": "go", "hostPath": {"path": str(go)}}],
        "terminationGracePeriodSeconds": 120,
    }
    name = lab.put(**spec)
    lab.comes_to(name, "Running")
    lab.put(name, metadata={"labels": {"version": "2"}}, **spec)

    def waiting() -> dict[str, Any]:
        pods = [it for it in lab.node.get("/pods")["items"] if it["metadata"]["name"] == name]
        return next((it for it in pods if it["metadata"].get("labels")), {})

    pod = lab.until("the new version is listed", waiting)
    assert pod["metadata"]["creationTimestamp"]
    assert pod["status"]["message"] == "waits until its previous version has ended"
    assert "waits until its previous version has ended" in lab.node.cli("describe", "pod", name)
    assert f"default/{name}: Pending: waits until its previous version has ended" in lab.node.cli("status")
    (go / "go").touch()
    lab.until("the new version runs", lambda: waiting().get("status", {}).get("phase") == "Running")
    assert "message" not in waiting()["status"]
