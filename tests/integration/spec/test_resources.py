"""What processes may use: cgroups, and whom the kernel kills first (LR-1 to LR-8, CG-2 to CG-7, RS-1 to RS-4)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

MIB = 1 << 20
V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
#: The kernel's file for each limit: its controller and name on v1, its name on v2.
FILES = {
    "swap": ("memory/memory.memsw.limit_in_bytes", "memory.swap.max"),
    "shares": ("cpu/cpu.shares", "cpu.weight"),
    "quota": ("cpu/cpu.cfs_quota_us", "cpu.max"),
    "memory": ("memory/memory.limit_in_bytes", "memory.max"),
    "pids": ("pids/pids.max", "pids.max"),
}


def cgroup(lab: Lab, path: str, limit: str) -> Path:
    """The file with a limit of the cgroup at `path` below `kubepods`."""
    whole = f"{lab.node.containerd.cgroup_root}/kubepods/{path}".strip("/")
    controller, _, name = FILES[limit][0].partition("/")
    return Path("/sys/fs/cgroup", whole, FILES[limit][1]) if V2 else Path("/sys/fs/cgroup", controller, whole, name)


def read(lab: Lab, path: str, limit: str) -> str:
    return cgroup(lab, path, limit).read_text().split()[0]


def number(shares: int) -> str:
    """CG-3."""
    return str(1 + (shares - 2) * 9999 // 262142) if V2 else str(shares)


def container_id(pod: dict[str, Any], name: str, *, init: bool = False) -> str:
    statuses = pod["status"]["initContainerStatuses" if init else "containerStatuses"]
    return str(next(it for it in statuses if it["name"] == name)["containerID"].removeprefix("containerd://"))


UNLIMITED_QUOTA = "max" if V2 else "-1"
FULL = {"cpu": "200m", "memory": "64Mi"}


def running(lab: Lab, **spec: Any) -> dict[str, Any]:
    return lab.comes_to(lab.put(**spec), "Running")


def test_a_guaranteed_pod(lab: Lab) -> None:
    """CG-2, CG-6, LR-3, LR-4."""
    pod = running(lab, containers=[sh(FOREVER, resources={"limits": FULL})])
    uid = pod["metadata"]["uid"]
    assert pod["status"]["qosClass"] == "Guaranteed"
    for path in (f"pod{uid}", f"pod{uid}/{container_id(pod, 'main')}"):
        assert read(lab, path, "shares") == number(204)
        assert read(lab, path, "quota") == "20000"
        assert read(lab, path, "memory") == str(64 * MIB)


def test_a_burstable_pod_whose_sidecar_has_no_limits(lab: Lab) -> None:
    """13/sidecar: the sandbox is told sums, the pod's cgroup is not limited, each container is by itself."""
    side = {**sh(FOREVER, name="side", resources={"requests": {"cpu": "50m"}}), "restartPolicy": "Always"}
    main = sh(FOREVER, resources={"requests": {"cpu": "100m"}, "limits": FULL})
    pod = running(lab, initContainers=[side], containers=[main])
    uid = pod["metadata"]["uid"]
    path = f"burstable/pod{uid}"
    assert read(lab, path, "shares") == number(153)
    assert read(lab, path, "quota") == UNLIMITED_QUOTA
    assert read(lab, path, "memory") not in (str(64 * MIB), str(0))
    assert read(lab, f"{path}/{container_id(pod, 'main')}", "memory") == str(64 * MIB)
    assert read(lab, f"{path}/{container_id(pod, 'side', init=True)}", "quota") == UNLIMITED_QUOTA
    assert read(lab, "burstable", "shares") == number(153), "CG-5"


INIT_A = sh("true", name="a", resources={"requests": {"cpu": "300m"}})
INIT_B = sh("true", name="b", resources={"requests": {"cpu": "400m"}})
SIDE = {**sh(FOREVER, name="side", resources={"requests": {"cpu": "50m"}}), "restartPolicy": "Always"}
MAINS = [sh(FOREVER, name=name, resources={"requests": {"cpu": "100m"}}) for name in ("m", "n")]


@pytest.mark.parametrize(
    ("init", "containers", "milli"),
    [
        pytest.param([INIT_A, SIDE, INIT_B], MAINS, 450, id="RS-1 and RS-4 the widest moment is b beside the sidecar"),
        pytest.param([SIDE, INIT_A], MAINS, 350, id="RS-1 an init container after the sidecar"),
        pytest.param([INIT_A], [sh(FOREVER)], 300, id="RS-4 only an init container asks for something"),
        pytest.param([{**INIT_A, "restartPolicy": "Never"}, SIDE], MAINS, 300, id="RS-3 a policy makes no sidecar"),
        pytest.param([SIDE], MAINS, 250, id="RS-1 all that runs together"),
    ],
)
def test_what_a_pod_with_an_init_sequence_weighs(
    lab: Lab, init: list[dict[str, Any]], containers: list[dict[str, Any]], milli: int
) -> None:
    pod = running(lab, initContainers=init, containers=containers)
    assert read(lab, f"burstable/pod{pod['metadata']['uid']}", "shares") == number(milli * 1024 // 1000)


def test_cg_6_a_sidecars_limit_counts_for_the_plain_init_container_after_it(lab: Lab) -> None:
    """RS-3: the use is cumulative, so the pod is limited although the init container is not."""
    side = {**sh(FOREVER, name="side", resources={"limits": {"memory": "32Mi"}}), "restartPolicy": "Always"}
    main = sh(FOREVER, resources={"limits": {"memory": "64Mi"}})
    pod = running(lab, initContainers=[side, sh("true", name="plain")], containers=[main])
    assert read(lab, f"burstable/pod{pod['metadata']['uid']}", "memory") == str(96 * MIB)


def test_lr_2_and_lr_5_the_least_quota_and_no_swap(lab: Lab) -> None:
    pod = running(lab, containers=[sh(FOREVER, resources={"limits": {"cpu": "5m", "memory": "64Mi"}})])
    own = f"pod{pod['metadata']['uid']}/{container_id(pod, 'main')}"
    assert read(lab, own, "quota") == "1000"
    if cgroup(lab, own, "swap").exists():
        assert read(lab, own, "swap") == ("0" if V2 else str(64 * MIB))


def test_a_best_effort_pod(lab: Lab) -> None:
    pod = running(lab, containers=[sh(FOREVER)])
    path = f"besteffort/pod{pod['metadata']['uid']}"
    assert read(lab, path, "shares") == read(lab, "besteffort", "shares") == number(2)


def test_cg_4_all_pods_together_are_held_to_what_the_node_has(lab: Lab) -> None:
    running(lab, containers=[sh(FOREVER)])
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert read(lab, "", "memory") == str(int(total.split()[1]) * 1024)


def test_cg_5_burstable_pods_weigh_what_they_ask_for_together(lab: Lab) -> None:
    first = running(lab, containers=[sh(FOREVER, resources={"requests": {"cpu": "250m"}})])
    running(lab, containers=[sh(FOREVER, resources={"requests": {"cpu": "250m"}})])
    assert read(lab, "burstable", "shares") == number(512)
    lab.take(first["metadata"]["name"])
    lab.gone(first["metadata"]["name"])
    assert read(lab, "burstable", "shares") == number(256)


def test_limits_of_the_pod_as_a_whole(lab: Lab) -> None:
    """RS-2, CG-6, LR-3."""
    pod = running(lab, resources={"limits": FULL, "requests": {"cpu": "100m"}}, containers=[sh(FOREVER)])
    assert pod["status"]["qosClass"] == "Burstable"
    path = f"burstable/pod{pod['metadata']['uid']}"
    assert [read(lab, path, limit) for limit in ("shares", "quota", "memory")] == [number(102), "20000", str(64 * MIB)]
    assert read(lab, f"{path}/{container_id(pod, 'main')}", "memory") == str(64 * MIB)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_cg_7_the_cgroup_goes_when_the_pod_has_ended_though_its_manifest_stays(lab: Lab, policy: str) -> None:
    pod = lab.comes_to(lab.put(restartPolicy=policy, containers=[sh("true")]), "Succeeded")
    path = cgroup(lab, f"besteffort/pod{pod['metadata']['uid']}", "memory").parent
    lab.until("the cgroup is gone", lambda: not path.exists())


def test_cg_7_what_is_left_running_in_it_is_killed(lab: Lab) -> None:
    pod = running(lab, containers=[sh(FOREVER)])
    folder = cgroup(lab, f"besteffort/pod{pod['metadata']['uid']}", "memory").parent
    stray = subprocess.Popen(["sleep", "600"])
    try:
        (folder / "cgroup.procs").write_text(str(stray.pid))
        lab.take(pod["metadata"]["name"])
        lab.gone(pod["metadata"]["name"])
        assert stray.wait(10) == -9
        assert not folder.exists()
    finally:
        stray.kill()
        stray.wait()


def test_lr_8_a_sidecar_is_as_safe_as_the_main_that_it_serves(lab: Lab) -> None:
    look = "cat /proc/self/oom_score_adj; "
    side = {
        **sh(look + FOREVER, name="side", resources={"requests": {"memory": "32Mi"}}),
        "restartPolicy": "Always",
    }
    main = sh(look + FOREVER, resources={"requests": {"memory": "2Gi"}})
    name = lab.put(initContainers=[side], containers=[main])
    lab.comes_to(name, "Running")
    score = lab.until("main has looked", lambda: lab.printed(name))
    assert lab.printed(name, "side") == score
    assert 3 < int(score) < 999


@pytest.mark.parametrize(("resources", "score"), [({}, "1000"), ({"requests": {"cpu": "1m"}}, "999")])
def test_lr_8_best_effort_goes_first(lab: Lab, resources: dict[str, Any], score: str) -> None:
    assert lab.says("cat /proc/self/oom_score_adj", resources=resources) == score


def test_cg_6_a_pod_has_no_more_processes_than_the_node_allows(small_lab: Lab) -> None:
    lab = small_lab
    pod = running(lab, containers=[sh(FOREVER)])
    assert read(lab, f"besteffort/pod{pod['metadata']['uid']}", "pids") == "40"
    printed = lab.says("for i in $(seq 60); do sleep 3 & done 2>/dev/null; echo all")
    assert "all" not in printed.splitlines()
