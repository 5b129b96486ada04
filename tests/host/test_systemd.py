"""minikubelet as a service of a really booted host: what its restarts, its end and the host's reboots do to pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.host.conftest import CHECKOUT, Host, Json

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]


def container(name: str, life: str, **fields: Any) -> Json:
    """It tells of its life in /journal/events; `life` is what it does once it has started."""
    script = f"""
    tell() {{ echo "{name} $1" >>/journal/events; }}
    trap 'tell term; exit 0' TERM
    tell starting; {life}
    """
    mount = {"name": "journal", "mountPath": "/journal"}
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], "volumeMounts": [mount], **fields}


def story(name: str) -> Json:
    """init, then a sidecar behind a startup probe, then main."""
    forever = "while :; do sleep 1000 & wait $!; done"
    probe = {"exec": {"command": ["cat", "/up"]}, "periodSeconds": 1, "failureThreshold": 60}
    init = container("init", "tell ending")
    side = container("side", f"sleep 1; tell up; touch /up; {forever}", restartPolicy="Always", startupProbe=probe)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "initContainers": [init, side],
            "containers": [container("main", forever)],
            "volumes": [{"name": "journal", "hostPath": {"path": f"/journal/{name}", "type": "DirectoryOrCreate"}}],
        },
    }


def test_the_service_is_enabled_and_runs_a_sample_that_is_dropped_into_the_folder(installed: Host) -> None:
    assert installed.run("systemctl", "is-enabled", "minikubelet") == "enabled"
    assert installed.run("systemctl", "is-active", "minikubelet") == "active"
    installed.run("cp", f"{CHECKOUT}/configs/samples/proxy-gate.yaml", "/etc/minikubelet/manifests/")
    installed.until_running("proxy-gate")
    assert "proxy-gate" in installed.run("minikubelet", "get", "pods")
    installed.remove("proxy-gate")


@pytest.mark.parametrize(
    "blow",
    ["systemctl restart minikubelet", "systemctl kill --signal=KILL --kill-who=main minikubelet"],
    ids=["restart", "kill -9"],
)
def test_a_daemon_that_starts_again_leaves_containers_untouched(installed: Host, blow: str) -> None:
    installed.drop(story("untouched"))
    before = installed.until_running("untouched")
    processes = installed.processes()
    daemon = installed.daemon()
    installed.shell(blow)
    installed.until("a new daemon", lambda: installed.daemon() not in ("0", daemon))
    after = installed.until_running("untouched")
    assert installed.processes() == processes
    assert ids_and_starts(after) == ids_and_starts(before)
    installed.remove("untouched")


def test_a_hung_daemon_is_replaced_by_the_watchdog(installed: Host) -> None:
    installed.shell(
        "mkdir -p /run/systemd/system/minikubelet.service.d;"
        "printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/minikubelet.service.d/test.conf;"
        "systemctl daemon-reload; systemctl restart minikubelet"
    )
    daemon = installed.daemon()
    installed.shell(f"sleep 3; kill -0 {daemon}")  # a healthy one reports in time
    installed.run("kill", "-STOP", daemon)
    installed.until("a new daemon", lambda: installed.daemon() not in ("0", daemon))
    installed.shell("rm -r /run/systemd/system/minikubelet.service.d; systemctl daemon-reload")
    installed.shell("systemctl restart minikubelet")


def test_an_invalid_configuration_leaves_the_unit_failed_with_the_reason(installed: Host) -> None:
    config = "/etc/minikubelet/config.yaml"
    installed.shell(
        f"cp {config} /root/config.kept; echo 'maxPodz: 7' >>{config}; systemctl restart minikubelet || true"
    )
    installed.until(
        "it gives up", lambda: installed.run("systemctl", "is-failed", "minikubelet", check=False) == "failed"
    )
    assert installed.run("systemctl", "show", "-P", "ExecMainStatus", "minikubelet") == "78"
    assert "maxPodz" in installed.run("journalctl", "-u", "minikubelet", "-n", "20", "--no-pager")
    installed.shell(f"mv /root/config.kept {config}; systemctl start minikubelet")


def test_stopping_the_service_leaves_pods_running_and_starting_it_takes_them_up(installed: Host) -> None:
    installed.drop(story("kept"))
    before = installed.until_running("kept")
    processes = installed.processes()
    installed.run("systemctl", "stop", "minikubelet")
    assert installed.run("systemctl", "is-failed", "minikubelet", check=False) == "inactive"
    assert installed.processes() == processes
    installed.run("systemctl", "start", "minikubelet")
    assert ids_and_starts(installed.until_running("kept")) == ids_and_starts(before)
    installed.remove("kept")


@pytest.mark.parametrize("how", ["reboot", "power_cut"])
def test_after_a_reboot_pods_come_back_in_order(installed: Host, how: str) -> None:
    installed.drop(story("again"))
    before = set(ids_and_starts(installed.until_running("again")))
    journal = installed.root / "journal/again/events"
    journal.write_text("")  # from here on only what comes after the boot
    getattr(installed, how)()
    # The daemon tells what it remembers until it has seen containerd.
    installed.until("new containers", lambda: before.isdisjoint(ids_and_starts(installed.until_running("again"))))
    told = [line for line in journal.read_text().splitlines() if not line.endswith(" term")]
    assert told == ["init starting", "init ending", "side starting", "side up", "main starting"]
    installed.remove("again")


def ids_and_starts(pod: Json) -> list[str]:
    """Of every container that runs: its id and its start, as text."""
    status = pod["status"]
    every = status.get("initContainerStatuses", []) + status["containerStatuses"]
    return [json.dumps([c["containerID"], c["state"]["running"]]) for c in every if "running" in c["state"]]
