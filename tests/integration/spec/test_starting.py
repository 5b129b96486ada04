"""How containers come up and what is told of it, and of those that cannot (SB-5, CC-3 to CC-12, MT-6, TM-1 to TM-4)."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]


def told(lab: Lab, name: str) -> list[tuple[str, str, str]]:
    """Type, reason and message of a pod's events, oldest first."""
    events = [it for it in lab.node.get("/events")["items"] if it["involvedObject"]["name"] == name]
    return [(it["type"], it["reason"], it["message"]) for it in events]


def test_cc_11_and_cc_12_a_start_is_told_and_its_log_linked(lab: Lab) -> None:
    pod = lab.comes_to(lab.put(containers=[sh("echo here; " + FOREVER)]), "Running")
    name = pod["metadata"]["name"]
    assert told(lab, name)[-2:] == [
        ("Normal", "Created", "Container created"),
        ("Normal", "Started", "Container started"),
    ]
    container_id = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    link = lab.node.logs.parent / "containers" / f"{name}_default_main-{container_id}.log"
    log = lab.node.logs / f"default_{name}_{pod['metadata']['uid']}" / "main" / "0.log"
    assert link.readlink() == log
    assert stat.S_IMODE(log.parent.stat().st_mode) == stat.S_IMODE(log.parents[1].stat().st_mode) == 0o755  # SB-4, CC-4
    assert stat.S_IMODE(lab.node.logs.stat().st_mode) == 0o750  # SB-4
    lab.take(name)
    lab.gone(name)
    assert not link.is_symlink()  # GC-3


MISSING = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]
NO_PROFILE = {"seccompProfile": {"type": "Localhost", "localhostProfile": "none.json"}}


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        pytest.param({"env": MISSING}, "CreateContainerConfigError", 'configmap "none" not found', id="CC-11 config"),
        pytest.param({"securityContext": NO_PROFILE}, "CreateContainerError", "seccomp/none.json", id="CC-11 create"),
        pytest.param({"command": ["/none"]}, "RunContainerError", 'exec: "/none"', id="CC-11 start"),
    ],
)
def test_what_keeps_a_container_from_starting(lab: Lab, fields: dict[str, Any], reason: str, message: str) -> None:
    name = lab.put(containers=[{**sh(FOREVER), **fields}], restartPolicy="Always")
    found = lab.waiting(name, reason)
    assert message in found
    assert "rpc error" not in found
    assert lab.event(name, "Failed") == f"Error: {found}"


@pytest.mark.parametrize(("init", "reason"), [(False, "ContainerCreating"), (True, "PodInitializing")])
def test_sb_5_without_a_sandbox_everybody_waits(lab: Lab, reason: str, *, init: bool) -> None:
    spec: dict[str, Any] = {"setHostnameAsFQDN": True, "hostname": "h" * 60, "subdomain": "s"}
    name = lab.put(containers=[sh(FOREVER)], initContainers=[sh("true", name="first")] if init else [], **spec)
    full = f"{'h' * 60}.s.default.svc.cluster.local"
    assert lab.event(name, "FailedCreatePodSandBox") == (
        f"Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is "
        f"too long (64 characters is the max, {len(full)} characters requested)"
    )
    (waiting,) = [it["state"]["waiting"] for it in lab.pod(name)["status"]["containerStatuses"]]
    assert waiting["reason"] == reason


def test_mt_6_each_attempt_has_a_file_of_its_own_for_the_last_words(lab: Lab) -> None:
    """PD-1: where the pod's things lie."""
    name = lab.put(containers=[sh("exit 1")], restartPolicy="OnFailure")

    def restarted() -> dict[str, Any]:
        statuses = lab.pod(name).get("status", {}).get("containerStatuses", [{"restartCount": 0}])
        return lab.pod(name) if statuses[0]["restartCount"] else {}

    pod = lab.until("it was restarted", restarted)
    home = lab.node.base / "minikubelet" / "pods" / pod["metadata"]["uid"]
    files = list((home / "containers" / "main").iterdir())
    assert len(files) >= 2
    assert all(len(file.name) == 8 and set(file.name) <= set("0123456789abcdef") for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (home, files[0].parent)} == {0o750}
    assert (home / "etc-hosts").is_file()


def ended(lab: Lab, *containers: dict[str, Any]) -> dict[str, str]:
    """Their last words, by name."""
    pod = lab.comes_to(lab.put(containers=list(containers)), "Failed")
    return {it["name"]: it["state"]["terminated"].get("message", "") for it in pod["status"]["containerStatuses"]}


FALL_BACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def test_last_words(lab: Lab) -> None:
    """TM-1 to TM-4, 13/log-lines, 13/message-size: the file, in its absence the log's end, each as long as may be."""
    found = ended(
        lab,
        sh("head -c 5000 /dev/zero | tr '\\0' x >/dev/termination-log; exit 1", name="long"),
        sh("for i in $(seq 200); do echo $i; done; exit 3", name="log", **FALL_BACK),
        sh("echo not this; printf this >/words; exit 3", name="file", terminationMessagePath="/words", **FALL_BACK),
    )
    lines = "".join(f"{number}\n" for number in range(121, 201))
    assert found == {"long": "x" * 4096, "log": lines, "file": "this"}


def test_tm_2_the_log_counts_only_after_an_error(lab: Lab) -> None:
    found = ended(
        lab,
        sh("echo well", name="well", **FALL_BACK),
        sh("echo bad; exit 1", name="by-default"),
        sh("exit 1", name="x"),
    )
    assert found == {"well": "", "by-default": "", "x": ""}


def test_cc_4_a_terminal_and_an_input(lab: Lab) -> None:
    script = "test -t 1 && echo a terminal; read x && echo $x || echo no input"
    assert lab.says(script) == "no input"
    pod = lab.comes_to(lab.put(containers=[sh(script, tty=True, stdin=True)]), "Running")
    name = pod["metadata"]["name"]
    assert lab.until("it has printed", lambda: lab.printed(name)).strip() == "a terminal"


@pytest.mark.parametrize(
    ("fields", "printed"),
    [
        pytest.param({}, "from the image", id="CC-3 neither: the image's own"),
        pytest.param({"args": ["$(B)", "b"]}, "bb b", id="CC-3 args: after the image's entry point"),
        pytest.param({"command": ["echo", "only"]}, "only", id="CC-3 command: the image's words are dropped"),
        pytest.param({"command": ["echo"], "args": ["$$(B)", "$(NO)"]}, "$(B) $(NO)", id="CC-6 both"),
        pytest.param({"command": ["pwd"], "workingDir": "/$(B)"}, "/$(B)", id="CC-3 workingDir is not expanded"),
    ],
)
def test_what_is_run(lab: Lab, fields: dict[str, Any], printed: str) -> None:
    container = {"name": "main", "image": "worded:1", "env": [{"name": "B", "value": "bb"}], **fields}
    name = lab.put(containers=[container])
    lab.comes_to(name, "Succeeded")
    assert lab.printed(name) == printed


def test_vo_3_an_empty_dir_lives_as_long_as_its_pod(lab: Lab) -> None:
    """Whatever becomes of its containers; and everybody may write to it."""
    mounts = [{"name": "e", "mountPath": "/e"}]
    script = "stat -c %a /e; ls /e; mktemp -p /e >/dev/null; [ $(ls /e | wc -l) -ge 2 ]"
    containers = [sh(script, volumeMounts=mounts)]
    pod = lab.comes_to(lab.put(containers=containers, volumes=[{"name": "e"}], restartPolicy="OnFailure"), "Succeeded")
    mode, found = lab.printed(pod["metadata"]["name"]).splitlines()[-2:]
    assert (mode, found[:4]) == ("777", "tmp.")
    home = Path(lab.node.base, "minikubelet/pods", pod["metadata"]["uid"])
    gone = home / "volumes/kubernetes.io~empty-dir/e"
    lab.until("the volume is gone, as the pod is terminal", lambda: not gone.exists())  # VO-14
    assert (home / "etc-hosts").exists()
