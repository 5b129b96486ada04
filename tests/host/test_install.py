"""scripts/install and scripts/uninstall on a really booted host: what they make, keep, say and take away."""

from __future__ import annotations

import subprocess

import pytest

from tests.host.conftest import CHECKOUT, ROOT, Host, Json, install
from tests.host.test_systemd import container, ids_and_starts, story

pytestmark = [pytest.mark.host, pytest.mark.timeout(300)]

#: These belong to nobody but minikubelet and its pods.
TRACES = """/opt/minikubelet /etc/minikubelet /var/lib/minikubelet /usr/local/bin/minikubelet /var/log/pods
 /etc/systemd/system/minikubelet.service /etc/systemd/system/multi-user.target.wants/minikubelet.service
 /etc/cni/net.d/10-minikubelet.conflist /var/lib/cni/networks/minikubelet /sys/class/net/minikubelet0""".replace(
    "\n", ""
)


def once(name: str) -> Json:
    """Ends at once, and stays."""
    volumes = [{"name": "journal", "emptyDir": {}}]
    spec = {"restartPolicy": "Never", "containers": [container("main", "exit 0")], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_installing_again_is_an_upgrade_that_touches_neither_pods_nor_what_is_yours(bare: Host) -> None:
    install(bare)
    bare.drop(story("pod"))
    before = bare.until_running("pod")
    config, default = "/etc/minikubelet/config.yaml", "/var/lib/minikubelet/installer/config.yaml"
    bare.shell(f"echo 'maxPods: 7' >>{config}; echo '# an older default' >>{default}")
    bare.shell("echo mine >/etc/minikubelet/manifests/x.txt")
    told = install(bare)
    assert "your /etc/minikubelet/config.yaml was kept" in told
    assert "maxPods: 7" in bare.run("cat", config).splitlines()
    assert bare.run("cat", f"{config}.new") == (ROOT / "configs/config.yaml").read_text().rstrip("\n")
    assert bare.run("cat", "/etc/minikubelet/manifests/x.txt") == "mine"
    assert ids_and_starts(bare.until_running("pod")) == ids_and_starts(before)
    assert "was kept" not in install(bare), "the same default twice is no news"


def test_uninstalling_leaves_pods_running_and_says_what_it_left_and_purging_leaves_nothing(bare: Host) -> None:
    install(bare)
    bare.drop(story("pod"))
    uid = bare.until_running("pod")["metadata"]["uid"]
    processes = bare.processes()
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall 2>&1")
    assert "Pods that still run, with nobody to look after them: 1." in told
    assert "Kept: /etc/minikubelet" in told
    assert bare.processes() == processes
    assert bare.shell("ls -d /opt/minikubelet /etc/systemd/system/minikubelet.service 2>/dev/null", check=False) == ""
    install(bare)
    bare.until_running("pod")
    assert bare.processes() == processes, "installing again takes the same containers up"
    bare.shell(f"{CHECKOUT}/scripts/uninstall --purge 2>&1", timeout=120)
    assert bare.processes() == []
    assert bare.shell(f"ls -d {TRACES} 2>/dev/null", check=False) == ""
    assert bare.run("ctr", "-n", "k8s.io", "containers", "ls", "-q") == ""
    assert bare.shell(f"find /sys/fs/cgroup -path '*kubepods*' -name '*{uid}*'") == ""
    assert bare.shell("grep -E 'minikubelet|kubelet/pods|netns' /proc/mounts", check=False) == ""
    events = (bare.root / "journal/pod/events").read_text().splitlines()
    assert events[-2:] == ["main term", "side term"], "purging ends pods in their order"


def test_purging_when_the_program_is_gone_waits_for_the_pods_to_be_gone_too(bare: Host) -> None:
    install(bare)
    bare.drop(once("done"))
    bare.drop(story("pod"))
    bare.until_running("pod")
    bare.until("done is done", lambda: (bare.pod("done") or {})["status"]["phase"] == "Succeeded")
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall 2>&1")
    assert "nobody to look after them: 1." in told, "a pod that has ended does not run"
    processes = bare.processes()
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall --purge 2>&1; echo $?", check=False)
    assert "these pods still run: default/pod. The program that ends them in their order is gone" in told
    assert "Do this: scripts/install, then scripts/uninstall --purge" in told
    assert told.endswith("\n1")
    assert bare.processes() == processes
    assert bare.shell("ls /etc/minikubelet/manifests") == "done.yaml\npod.yaml"
    bare.reboot()
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall --purge 2>&1")
    assert "2 manifests" in told
    assert bare.run("ctr", "-n", "k8s.io", "containers", "ls", "-q") == ""
    assert bare.shell(f"ls -d {TRACES} 2>/dev/null", check=False) == ""
    assert bare.shell("ls /tmp/minikubelet-* 2>/dev/null", check=False) == ""


def test_purging_after_pods_that_nobody_ended_takes_their_mounts_down_and_spares_what_is_bound_there(
    bare: Host,
) -> None:
    install(bare)
    pod = story("pod")
    pod["spec"]["volumes"] += [
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "mine", "hostPath": {"path": "/srv/mine", "type": "Directory"}},
    ]
    pod["spec"]["containers"][0]["volumeMounts"] += [
        {"name": "memory", "mountPath": "/memory"},
        {"name": "mine", "mountPath": "/mine", "subPath": "part"},
    ]
    bare.shell("mkdir -p /srv/mine/part; echo precious >/srv/mine/part/file")
    bare.drop(pod)
    bare.until_running("pod")
    bare.shell(f"{CHECKOUT}/scripts/uninstall")
    bare.shell("for task in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks kill --signal KILL $task; done")
    bare.until("all have ended", lambda: bare.processes() == [])
    bare.shell(f"{CHECKOUT}/scripts/uninstall --purge")
    assert bare.run("cat", "/srv/mine/part/file") == "precious"
    assert bare.run("ctr", "-n", "k8s.io", "containers", "ls", "-q") == ""
    assert bare.shell(f"ls -d {TRACES} /run/netns/* /var/lib/cni/results/* 2>/dev/null", check=False) == ""
    assert bare.shell("grep -E 'minikubelet|netns' /proc/mounts", check=False) == ""


@pytest.mark.parametrize("script", ["install", "uninstall", "demo", "test", "sample-image"])
def test_a_script_looks_at_all_its_arguments_before_it_does_anything(script: str) -> None:
    fine = {"uninstall": "--purge", "install": "--no-start", "test": "checks", "sample-image": "busybox"}
    arguments = [*([fine[script]] if script in fine else []), "--bogus"]
    done = told(script, *arguments)
    assert done.returncode == 1
    assert "'--bogus'" in done.stderr
    done = told(script, *arguments, "--help")
    assert done.returncode == 0
    assert f"scripts/{script}" in done.stdout


def told(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "scripts" / script), *arguments], capture_output=True, text=True, check=False)


def test_a_host_without_registry_gets_the_samples_images_and_the_sandbox_image_from_debians_busybox(bare: Host) -> None:
    told = install(bare, "--no-start")
    assert "nothing runs yet" in told
    assert bare.shell("stat -c %a /etc/minikubelet/manifests /etc/minikubelet/images") == "700\n755"
    bare.shell("systemctl start minikubelet; ctr -n k8s.io images rm $(ctr -n k8s.io images ls -q) >/dev/null")
    told = bare.shell(f"{CHECKOUT}/scripts/sample-image busybox pause 2>&1")
    assert "docker.io/library/busybox:1.36: /etc/minikubelet/images/busybox.tar" in told
    bare.run("cp", f"{CHECKOUT}/configs/samples/proxy-gate.yaml", "/etc/minikubelet/manifests/")
    bare.until_running("proxy-gate")
    told = install(bare, "--no-start")
    assert "still the one from before" in told
    assert "will fetch the image" not in told
    bare.shell("chmod 750 /etc/minikubelet/manifests")
    told = install(bare, "--no-start")
    assert bare.shell("stat -c %a /etc/minikubelet/manifests") == "750", "a folder that is there keeps its rights"
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall --purge 2>&1")
    assert "not ended yet: default/proxy-gate" in told
    assert "Removing 0 claims with their data, 2 image archives, 1 manifest," in told


def test_a_containerd_with_cri_switched_off_is_told_of_and_not_edited(bare: Host) -> None:
    docker = 'disabled_plugins = ["cri"]\n'
    (bare.root / "etc/containerd/config.toml").write_text(docker)
    bare.run("systemctl", "restart", "containerd")
    told = install(bare, check=False)
    assert "Not running yet: containerd's CRI plugin is switched off in /etc/containerd/config.toml" in told
    assert bare.run("cat", "/etc/containerd/config.toml") == docker.rstrip("\n")
    assert bare.run("systemctl", "is-enabled", "minikubelet") == "enabled"
    bare.shell("echo 'version = 2' >/etc/containerd/config.toml; systemctl restart containerd")
    assert "Not running yet" not in install(bare)


def test_a_hosts_own_network_configuration_plugins_and_folders_are_left_as_they_are(bare: Host) -> None:
    bare.shell(
        "mkdir -p /etc/cni/net.d /opt/cni/bin;"
        'echo \'{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"loopback"}]}\''
        " >/etc/cni/net.d/99-mine.conflist;"
        "sed -i s,/usr/lib/cni,/opt/cni/bin, /etc/containerd/config.toml; systemctl restart containerd"
    )
    install(bare)
    assert bare.shell("ls /etc/cni/net.d") == "99-mine.conflist"
    assert "bridge" in bare.shell("ls /opt/cni/bin").split(), "containerd's own folder of plugins is filled"
    bare.shell("echo 'rootDir: /srv/mine' >>/etc/minikubelet/config.yaml")
    told = bare.shell(f"{CHECKOUT}/scripts/uninstall --purge")
    assert bare.shell("ls /etc/cni/net.d; ls /opt/cni/bin") == "99-mine.conflist"
    assert "install did not make them: /srv/mine" in told
