"""`minikubelet logs` on a real node: which container, which instance, and following one to its end."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh
from tests.support.node import PrivateNode

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def logs(node: PrivateNode, *arguments: str, server: str = "") -> subprocess.CompletedProcess[str]:
    command = ["logs", *(("--logs-dir", str(node.logs)) if server else ()), *arguments]
    environment = {**os.environ, "MINIKUBELET_SERVER": server or node.url}
    return subprocess.run([*node.command, *command], capture_output=True, text=True, check=False, env=environment)


def test_containers_and_instances(lab: Lab) -> None:
    proxy = sh(f"echo proxy; {FOREVER}", name="proxy", restartPolicy="Always")
    script = "if [ -e /d/again ]; then echo second; " + FOREVER + "; fi; touch /d/again; echo first; exit 3"
    mounts = [{"name": "d", "mountPath": "/d"}]
    name = lab.put(
        initContainers=[sh("echo init", name="setup"), proxy],
        containers=[sh(script, volumeMounts=mounts), sh(f"echo other; {FOREVER}", name="other")],
        volumes=[{"name": "d", "emptyDir": {}}],
        restartPolicy="Always",
    )
    lab.until("main runs again", lambda: "second" in logs(lab.node, name, "-c", "main").stdout)
    found = logs(lab.node, name)
    assert (found.stdout, found.returncode) == ("second\n", 0)
    assert found.stderr == 'Defaulted container "main" out of: main, other, setup (init), proxy (init)\n'
    for container, text in (("setup", "init\n"), ("proxy", "proxy\n"), ("other", "other\n")):
        lab.until(container, lambda c=container, t=text: logs(lab.node, name, "-c", c).stdout == t)  # type: ignore[misc]
    assert logs(lab.node, f"pod/{name}", "-c", "main", "--previous").stdout == "first\n"
    found = logs(lab.node, name, "-c", "other", "-p")
    assert found.returncode == 1
    assert found.stderr == (
        f'Error from server (BadRequest): previous terminated container "other" in pod "{name}" not found\n'
    )
    assert "container nosuch is not valid for pod" in logs(lab.node, name, "-c", "nosuch").stderr
    assert logs(lab.node, "nosuch").stderr == 'Error from server (NotFound): pods "nosuch" not found\n'
    down = logs(lab.node, name, "-c", "proxy", server="http://127.0.0.1:1")
    assert down.stdout == "proxy\n"
    assert "does not answer" in down.stderr


def test_both_streams_are_followed_to_the_end(lab: Lab) -> None:
    go = lab.node.base / "go-logs"
    go.mkdir(exist_ok=True)
    script = (
        "echo one; echo two >&2; until [ -e /go/go ]; do sleep 0.1; done; head -c 40000 /dev/zero | tr '\\0' x; echo"
    )
    name = lab.put(
        containers=[sh(script, volumeMounts=[{"name": "go", "mountPath": "/go"}])],
        volumes=[{"name": "go", "hostPath": {"path": str(go)}}],
    )
    lab.comes_to(name, "Running")
    command = [*lab.node.command, "logs", "-f", name]
    environment = {**os.environ, "MINIKUBELET_SERVER": lab.node.url}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as following:
        assert following.stdout is not None
        assert {following.stdout.readline(), following.stdout.readline()} == {"one\n", "two\n"}
        (go / "go").touch()
        assert following.stdout.read() == "x" * 40000 + "\n"
        assert following.wait() == 0
    lab.comes_to(name, "Succeeded")
    assert logs(lab.node, name, "--tail", "1").stdout == "x" * 40000 + "\n"
