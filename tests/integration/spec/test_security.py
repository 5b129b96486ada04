"""Who processes are, and what the kernel lets them do (SC-1 to SC-9, SB-10 to SB-13)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from tests.integration.spec.conftest import FOREVER, Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

STATUS = "grep -E '^(Uid|Gid|Groups|CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status"
#: What containerd gives where nothing is said.
USUAL = "00000000a80425fb"
NET_ADMIN = 1 << 12


def status_of(printed: str) -> dict[str, str]:
    return {key: value.strip() for key, value in (line.split(":", 1) for line in printed.splitlines() if ":" in line)}


def test_user_groups_and_privileges_as_they_are_without_a_word(lab: Lab) -> None:
    found = status_of(lab.says(STATUS))
    assert found["Uid"].split() == ["0"] * 4
    assert (found["CapBnd"], found["NoNewPrivs"], found["Seccomp"]) == (USUAL, "0", "0")


def test_sc_1_and_sc_5_users_and_groups(lab: Lab) -> None:  # 13/groups
    spec = {"securityContext": {"runAsUser": 1000, "fsGroup": 3000, "supplementalGroups": [4000]}}
    found = status_of(lab.says(STATUS, spec=spec))
    assert found["Uid"].split() == ["1000"] * 4
    assert set(found["Groups"].split()) >= {"3000", "4000"}
    found = status_of(lab.says(STATUS, spec=spec, securityContext={"runAsUser": 7, "runAsGroup": 8}))
    assert (found["Uid"].split()[0], found["Gid"].split()[0]) == ("7", "8")


def test_sc_2_a_group_without_a_user_goes_with_the_images_user(lab: Lab) -> None:
    found = status_of(lab.says(STATUS, spec={"securityContext": {"runAsGroup": 2000}}, image="numbered:1"))
    assert (found["Uid"].split()[0], found["Gid"].split()[0]) == ("1000", "2000")


def test_sc_2_the_images_user_by_name(lab: Lab) -> None:
    assert status_of(lab.says(STATUS, image="named:1"))["Uid"].split()[0] == "1000"


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("busybox:1.36", "container has runAsNonRoot and image will run as root"),
        ("named:1", "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root"),
    ],
)
def test_sc_3_what_may_be_root_is_not_started(lab: Lab, image: str, message: str) -> None:
    name = lab.put(containers=[sh("true", image=image)], securityContext={"runAsNonRoot": True})
    uid = lab.until("the pod is there", lambda: lab.pod(name))["metadata"]["uid"]
    where = f'(pod: "{name}_default({uid})", container: main)'
    assert lab.waiting(name, "CreateContainerConfigError") == f"{message} {where}"
    assert lab.event(name, "Failed") == f"Error: {message} {where}"


def test_sc_3_what_is_not_root_is_started(lab: Lab) -> None:
    context = {"securityContext": {"runAsNonRoot": True}}
    assert status_of(lab.says(STATUS, spec=context, image="numbered:1"))["Uid"].split()[0] == "1000"


def test_sc_1_capabilities(lab: Lab) -> None:
    dropped = status_of(lab.says(STATUS, securityContext={"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}))
    assert int(dropped["CapBnd"], 16) == NET_ADMIN
    added = status_of(lab.says(STATUS, securityContext={"capabilities": {"add": ["NET_ADMIN"], "drop": ["CHOWN"]}}))
    assert int(added["CapBnd"], 16) == (int(USUAL, 16) | NET_ADMIN) & ~1


def test_sc_9_privileged_containers_have_every_capability_and_device(lab: Lab) -> None:
    printed = lab.says(f"{STATUS}; test -e /dev/kmsg && echo dev", securityContext={"privileged": True})
    assert int(status_of(printed)["CapBnd"], 16) > int(USUAL, 16)
    assert "dev" in printed.splitlines()


def test_sc_9_a_read_only_root_leaves_volumes_writable(lab: Lab) -> None:
    printed = lab.says(
        "touch /x 2>&1; touch /v/x && echo volume",
        securityContext={"readOnlyRootFilesystem": True},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        spec={"volumes": [{"name": "v", "emptyDir": {}}]},
    )
    assert printed == "touch: /x: Read-only file system\nvolume"


def test_sc_4_no_more_privileges_than_at_the_start(lab: Lab) -> None:
    assert status_of(lab.says(STATUS, securityContext={"allowPrivilegeEscalation": False}))["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    ("own", "common", "mode"),
    [
        pytest.param("RuntimeDefault", None, "2", id="SC-6 the container's"),
        pytest.param(None, "RuntimeDefault", "2", id="SC-6 the pod's"),
        pytest.param("Unconfined", "RuntimeDefault", "0", id="SC-6 the container's wins"),
    ],
)
def test_seccomp(lab: Lab, own: str | None, common: str | None, mode: str) -> None:
    context = {"seccompProfile": {"type": own}} if own else {}
    pods = {"seccompProfile": {"type": common}} if common else {}
    found = status_of(lab.says(STATUS, securityContext=context, spec={"securityContext": pods}))
    assert found["Seccomp"] == mode


def test_sc_6_a_profile_of_the_hosts_own(lab: Lab) -> None:
    folder = lab.node.base / "minikubelet/seccomp/deny"
    folder.mkdir(parents=True)
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    }
    (folder / "mkdir.json").write_text(json.dumps(profile))
    local = {"type": "Localhost", "localhostProfile": "deny/mkdir.json"}
    printed = lab.says("mkdir /x 2>&1; touch /y && echo fine", securityContext={"seccompProfile": local})
    assert printed.splitlines()[-1] == "fine"
    assert "Operation not permitted" in printed


def test_sc_6_a_profile_that_is_not_there_is_the_runtimes_error(lab: Lab) -> None:
    local = {"type": "Localhost", "localhostProfile": "none.json"}
    name = lab.put(containers=[sh("true", securityContext={"seccompProfile": local})])
    assert "minikubelet/seccomp/none.json" in lab.waiting(name, "CreateContainerError")


def test_sc_8_what_tells_of_the_host_is_masked(lab: Lab) -> None:
    printed = lab.says("wc -c </proc/keys; ls /sys/firmware; (echo x >/proc/sys/kernel/domainname) 2>&1")
    assert printed.splitlines()[0] == "0"
    assert "Read-only file system" in printed


def test_sb_13_sysctls_are_the_pods_own(lab: Lab) -> None:
    sysctls = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]
    printed = lab.says(
        "cat /proc/sys/net/ipv4/ip_unprivileged_port_start", spec={"securityContext": {"sysctls": sysctls}}
    )
    assert printed == "80"


def test_ad_7_sysctls_that_are_not_safe_are_refused(lab: Lab) -> None:
    sysctls = [{"name": "net.core.somaxconn", "value": "9"}]
    name = lab.put(containers=[sh("true")], securityContext={"sysctls": sysctls})
    status = lab.comes_to(name, "Failed")["status"]
    text = 'forbidden sysctl: "net.core.somaxconn" not allowlisted'
    assert (status["reason"], status["message"]) == ("SysctlForbidden", f"Pod was rejected: {text}")
    assert lab.event(name, "SysctlForbidden") == text


NAMESPACES = "for n in ipc net pid uts; do readlink /proc/self/ns/$n; done"


@pytest.mark.parametrize(
    ("spec", "shared"),
    [
        pytest.param({}, set(), id="SB-10 none"),
        pytest.param({"hostIPC": True}, {"ipc"}, id="SB-10 hostIPC"),
        pytest.param({"hostPID": True}, {"pid"}, id="SB-10 hostPID"),
        pytest.param({"hostNetwork": True}, {"net", "uts"}, id="SB-10 hostNetwork"),
    ],
)
def test_host_namespaces(lab: Lab, spec: dict[str, Any], shared: set[str]) -> None:
    ours = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("ipc", "net", "pid", "uts")}
    theirs = dict(re.findall(r"(\w+):(\[\d+\])", lab.says(NAMESPACES, spec=spec)))
    assert {name for name, link in ours.items() if link == f"{name}:{theirs[name]}"} == shared


def test_sb_10_containers_that_share_their_processes_see_each_other(lab: Lab) -> None:
    side = {**sh("exec sleep 4321", name="side"), "restartPolicy": "Always"}
    script = "until grep -aq 4321 /proc/[0-9]*/cmdline; do sleep 0.1; done; echo seen"
    printed = lab.says(script, spec={"initContainers": [side], "shareProcessNamespace": True})
    assert printed == "seen"


def test_sb_10_otherwise_each_is_alone(lab: Lab) -> None:
    side = {**sh("exec sleep 4322", name="side"), "restartPolicy": "Always"}
    printed = lab.says("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", spec={"initContainers": [side]})
    assert "4322" not in printed


async def _has_user_namespaces(lab: Lab) -> bool:
    async with connect(lab.node.containerd.socket) as channel:
        status = await CRIClient(channel).status()
    return any(handler.name == "" and handler.features.user_namespaces for handler in status.runtime_handlers)


def test_sb_11_users_of_the_pods_own_where_the_runtime_can(lab: Lab) -> None:
    if not asyncio.run(_has_user_namespaces(lab)):
        name = lab.put(containers=[sh(FOREVER)], hostUsers=False)
        assert lab.event(name, "FailedCreatePodSandBox") == (
            "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"
        )
        assert lab.pod(name)["status"]["phase"] == "Pending"
        return
    script = "id -u; cat /proc/self/uid_map; touch /v/x && ls -ln /v/x /etc/hosts"
    spec = {"hostUsers": False, "volumes": [{"name": "v", "emptyDir": {}}]}
    mounts = [{"name": "v", "mountPath": "/v"}]
    firsts = set()
    for _ in range(2):
        user, mapping, *files = lab.says(script, spec=spec, volumeMounts=mounts).splitlines()
        assert user == "0"
        inside, outside, length = map(int, mapping.split())
        assert (inside, outside % 65536, length) == (0, 0, 65536)
        assert [line.split()[2] for line in files] == ["0", "0"], "files keep the owners that they have on the host"
        firsts.add(outside)
    assert len(firsts) == 2
    assert 0 not in firsts
