"""Pods that the node has no room for, or does not take at all (AD-1 to AD-5)."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def waits(lab: Lab, name: str, reason: str) -> str:
    """The message of a pod that waits for room."""

    def message() -> str:
        status = lab.pod(name).get("status", {})
        return str(status["message"]) if (status.get("phase"), status.get("reason")) == ("Pending", reason) else ""

    found: str = lab.until(f"{name} waits: {reason}", message)
    return found


def failed(lab: Lab, name: str) -> tuple[str, str]:
    status = lab.comes_to(name, "Failed")["status"]
    assert "containerStatuses" not in status
    return status["reason"], status["message"]


def serving(port: int) -> list[dict[str, Any]]:
    return [sh(FOREVER, ports=[{"containerPort": 80, "hostPort": port}])]


def test_of_two_pods_that_want_one_host_port_the_second_waits_until_it_is_free(lab: Lab) -> None:
    first = lab.put(containers=serving(18765))
    lab.comes_to(first, "Running")
    side = {**serving(18765)[0], "name": "side", "restartPolicy": "Always"}
    second = lab.put(initContainers=[side], containers=[sh(FOREVER)])
    assert waits(lab, second, "NodePorts") == (
        "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports; "
        "it is tried again when another pod ends"
    )
    assert lab.event(second, "NodePorts").startswith("Predicate NodePorts failed: ")
    lab.take(first)
    lab.comes_to(second, "Running")


def test_what_asks_for_more_than_the_node_has_is_failed(lab: Lab) -> None:  # AD-6, D-4
    name = lab.put(containers=[sh("true", resources={"requests": {"cpu": "1000"}})])
    reason, message = failed(lab, name)
    assert reason == "OutOfcpu"
    cores = 1000 * (os.cpu_count() or 1)
    used = "requested: 1000000, used: 0"
    assert message == f"Pod was rejected: Node didn't have enough resource: cpu, {used}, capacity: {cores}"


def test_a_pod_beyond_the_nodes_number_waits_until_another_has_ended_also_over_a_restart(small_lab: Lab) -> None:
    lab = small_lab
    stay = [lab.put(containers=[sh(FOREVER)]) for _ in range(2)]
    folder = {"path": str(lab.node.base / "x"), "type": "DirectoryOrCreate"}
    until_told = sh("until test -e /x/go; do sleep 0.1; done", volumeMounts=[{"name": "x", "mountPath": "/x"}])
    ends = lab.put(containers=[until_told], volumes=[{"name": "x", "hostPath": folder}])
    for name in (*stay, ends):
        lab.comes_to(name, "Running")
    late = lab.put(containers=[sh(FOREVER)])
    expected = "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    assert waits(lab, late, "OutOfpods").startswith(expected)
    lab.node.stop(signal.SIGKILL)
    lab.node.start()
    assert waits(lab, late, "OutOfpods").startswith(expected), "those that run count first"
    (lab.node.base / "x/go").touch()
    lab.comes_to(late, "Running")
    assert lab.pod(ends)["status"]["phase"] == "Succeeded"


def test_node_labels_runtime_classes_and_sysctls_as_configured(small_lab: Lab) -> None:
    """D-9, 14/runtime-class, 14/node-selection."""
    lab = small_lab
    reason, message = failed(lab, lab.put("hdd", containers=[sh("true")], nodeSelector={"disk": "hdd"}))
    assert reason == "NodeAffinity"
    assert (
        message == "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )
    lab.comes_to(lab.put("ssd", containers=[sh("true")], nodeSelector={"disk": "ssd"}), "Succeeded")
    assert failed(lab, lab.put("kata", containers=[sh("true")], runtimeClassName="kata"))[0] == "RuntimeClassNotFound"
    lab.comes_to(lab.put("plain", containers=[sh("true")], runtimeClassName="plain"), "Succeeded")
    lab.put("odd", containers=[sh("true")], runtimeClassName="odd")
    assert "nosuch" in lab.event("odd", "FailedCreatePodSandBox")
    lab.take("odd")
    sysctls = {"sysctls": [{"name": "net.core.somaxconn", "value": "77"}]}
    printed = lab.says(
        "cat /proc/sys/net/core/somaxconn; grep Seccomp: /proc/self/status", spec={"securityContext": sysctls}
    )
    assert printed.split() == ["77", "Seccomp:", "2"], "seccompDefault as well"
