"""Pods on a host with cgroup v2, where systemd manages the cgroups: a slice for each, with its limits (CG-2 to CG-7).

One boot of an emulated machine answers all questions; what is asked is in `ask_cgroups.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.host.guest import NEEDED, Guest, GuestError
from tests.support.images import PAUSE_NAME, write_archive

pytestmark = [pytest.mark.host, pytest.mark.timeout(1800)]

#: Emulated: minutes, on a busy machine many.
PATIENCE = 1200
CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_NAME}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""
CNI = """{"cniVersion": "1.0.0", "name": "mk", "plugins": [{"type": "bridge", "bridge": "mk0", "isGateway": true,
"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}}]}
"""
CONFIG = "staticPodPath: /etc/minikubelet/manifests\npodPidsLimit: 300\nsystemReserved: {memory: 100Mi}\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def answer(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("guest")
    try:
        guest = Guest(folder)
        try:
            guest.make()
        except GuestError as error:
            pytest.skip(f"Debian cannot be had: {error}")
        guest.install(wheels)
        guest.write("/etc/containerd/config.toml", CONTAINERD)
        guest.write("/etc/cni/net.d/10-mk.conflist", CNI)
        guest.write("/etc/minikubelet/config.yaml", CONFIG)
        guest.write("/etc/minikubelet/manifests/.keep", "")
        write_archive(guest.root / "images.tar")
        found: dict[str, Any] = guest.ask(Path(__file__).with_name("ask_cgroups.py").read_text(), within=PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def test_the_guest_has_cgroup_v2_alone(answer: dict[str, Any]) -> None:
    assert not answer["v1"]


def test_cg_2_each_pod_has_a_slice_below_that_of_its_class(answer: dict[str, Any]) -> None:
    assert set(answer["slices"]) >= {
        "kubepods-burstable.slice",
        "kubepods-besteffort.slice",
        "kubepods-podguaranteed_1.slice",
        "kubepods-burstable-podburstable_1.slice",
        "kubepods-besteffort-podbesteffort_1.slice",
    }
    assert answer["qos"] == {"guaranteed": "Guaranteed", "burstable": "Burstable", "besteffort": "BestEffort"}


def test_cg_6_the_pods_limits(answer: dict[str, Any]) -> None:
    assert answer["limits"]["guaranteed"] == {
        "cpu.weight": "8", "cpu.max": "20000 100000", "memory.max": str(64 * MIB), "pids.max": "300",
    }  # fmt: skip
    assert answer["limits"]["burstable"] == {
        "cpu.weight": "6", "cpu.max": "max 100000", "memory.max": "max", "pids.max": "300",
    }  # fmt: skip
    assert answer["limits"]["besteffort"] == {
        "cpu.weight": "1", "cpu.max": "max 100000", "memory.max": "max", "pids.max": "300",
    }  # fmt: skip


def test_cg_4_and_cg_5_the_limits_above_them(answer: dict[str, Any]) -> None:
    found = answer["limits"]
    assert 0 < int(found["all"]["memory.max"]) <= answer["memory"] - 100 * MIB
    assert found["classBestEffort"]["cpu.weight"] == "1"
    # 150m of the pod `burstable`; `greedy` asks for memory alone.
    assert found["classBurstable"]["cpu.weight"] == "6"


def test_lr_5_and_lr_6_the_container_itself(answer: dict[str, Any]) -> None:
    found = answer["container"]
    assert (found["cpu.weight"], found["cpu.max"], found["memory.max"]) == ("8", "20000 100000", str(64 * MIB))
    assert (found["memory.oom.group"], found["memory.swap.max"]) == ("1", "0")


def test_lr_6_a_child_that_takes_too_much_takes_the_whole_container_with_it(answer: dict[str, Any]) -> None:
    # Whether the reason is OOMKilled depends on whether containerd hears of the event before the exit.
    assert answer["greedy"]["exitCode"] == 137
    assert "survived" not in answer["greedyPrinted"]


def test_lr_8_the_kernel_is_told_whom_to_kill_first(answer: dict[str, Any]) -> None:
    assert answer["oom_score_adj"] == "1000"


@pytest.mark.parametrize("when", ["limitsAfterReload", "limitsAfterRestart"])
def test_limits_stay_when_systemd_reloads_and_when_the_daemon_begins_anew(answer: dict[str, Any], when: str) -> None:
    assert answer[when] == answer["limits"]
    assert answer["sameContainers"]


def test_cg_7_slices_go_with_their_pods_and_classes_weigh_less(answer: dict[str, Any]) -> None:
    left = set(answer["slicesAfterRemoval"])
    assert not {name for name in left if "guaranteed" in name or "burstable-pod" in name}
    assert set(answer["unitsAfterRemoval"]) <= left | {"kubepods.slice"}
    assert answer["classAfterRemoval"]["cpu.weight"] == "1"


def test_nothing_was_amiss(answer: dict[str, Any]) -> None:
    assert "could not be removed" not in answer["log"]
    assert "cannot be made" not in answer["log"]
