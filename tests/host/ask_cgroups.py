"""Runs inside the emulated guest, as root, on its own Python: runs pods, prints what their cgroups are as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

CGROUPS = Path("/sys/fs/cgroup")
KUBEPODS = CGROUPS / "kubepods.slice"
FOLDERS = {
    "all": KUBEPODS,
    "classBurstable": KUBEPODS / "kubepods-burstable.slice",
    "classBestEffort": KUBEPODS / "kubepods-besteffort.slice",
    "guaranteed": KUBEPODS / "kubepods-podguaranteed_1.slice",
    "burstable": KUBEPODS / "kubepods-burstable.slice/kubepods-burstable-podburstable_1.slice",
    "besteffort": KUBEPODS / "kubepods-besteffort.slice/kubepods-besteffort-podbesteffort_1.slice",
}
PODS = ("guaranteed", "burstable", "besteffort")
FILES = ("cpu.weight", "cpu.max", "memory.max", "pids.max")
MANIFESTS = Path("/etc/minikubelet/manifests")
LOG = Path("/daemon.log")
FOREVER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done"
#: A child of the container's first process takes more memory than there is for it.
GREEDY = "head -c 200000000 /dev/zero | tail >/dev/null; echo survived"
LIMITS = {"cpu": "200m", "memory": "64Mi"}


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def until(what: str, test: Callable[[], Any], *, within: float = 400) -> Any:
    deadline = time.monotonic() + within
    while not (found := test()):
        if time.monotonic() > deadline:
            sys.exit(f"not within {within} s: {what}\n{LOG.read_text()[-4000:]}\n{run('journalctl', '-n', '30')}")
        time.sleep(0.2)
    return found


def pods() -> dict[str, Json]:
    try:
        with urllib.request.urlopen("http://127.0.0.1:10255/pods", timeout=10) as answer:
            return {pod["metadata"]["name"]: pod for pod in json.load(answer)["items"] or []}
    except OSError:
        return {}


def start_daemon() -> subprocess.Popen[bytes]:
    command = ["/opt/minikubelet/bin/minikubelet", "run", "--config", "/etc/minikubelet/config.yaml"]
    with LOG.open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def container(script: str, name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "busybox:1.36", "command": ["sh", "-c", script], **fields}


def put(name: str, **spec: Any) -> None:
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "dnsPolicy": "Default", **spec}
    metadata = {"name": name, "uid": f"{name}-1"}
    fresh = MANIFESTS / f".{name}"
    fresh.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    fresh.rename(MANIFESTS / f"{name}.json")


def take(*names: str) -> None:
    for name in names:
        (MANIFESTS / f"{name}.json").unlink()


def comes_to(name: str, *phases: str) -> Json:
    def there() -> Json | None:
        pod = pods().get(name)
        return pod if pod and pod["status"]["phase"] in phases else None

    found: Json = until(f"{name} comes to {phases}", there)
    return found


def printed(name: str) -> str:
    (log,) = Path("/var/log/pods").glob(f"*_{name}_*/main/0.log")
    return log.read_text()


def container_id(pod: Json) -> str:
    return str(pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://"))


def limits(folder: Path, *more: str) -> dict[str, str]:
    return {name: (folder / name).read_text().strip() for name in (*FILES, *more) if (folder / name).exists()}


def all_limits() -> dict[str, dict[str, str]]:
    return {name: limits(folder) for name, folder in FOLDERS.items()}


def slices() -> list[str]:
    return sorted(path.name for path in KUBEPODS.glob("**/*.slice"))


def ask() -> Json:
    until("containerd", lambda: Path("/run/containerd/containerd.sock").exists())
    run("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", "/images.tar")
    daemon = start_daemon()
    put("guaranteed", containers=[container(FOREVER, resources={"limits": LIMITS})])
    side = container(FOREVER, "side", resources={"requests": {"cpu": "50m"}}, restartPolicy="Always")
    main = container(FOREVER, resources={"requests": {"cpu": "100m"}, "limits": LIMITS})
    put("burstable", initContainers=[side], containers=[main])
    put("besteffort", containers=[container("cat /proc/self/oom_score_adj; " + FOREVER)])
    put("greedy", containers=[container(GREEDY, resources={"limits": {"memory": "32Mi"}})])
    running = {name: comes_to(name, "Running") for name in PODS}
    ended = comes_to("greedy", "Failed", "Succeeded")
    scope = f"cri-containerd-{container_id(running['guaranteed'])}.scope"
    answer = {
        "v1": (CGROUPS / "memory").is_dir(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "slices": slices(),
        "limits": all_limits(),
        "container": limits(FOLDERS["guaranteed"] / scope, "memory.oom.group", "memory.swap.max"),
        "qos": {name: pod["status"]["qosClass"] for name, pod in running.items()},
        "greedy": ended["status"]["containerStatuses"][0]["state"]["terminated"],
        "greedyPrinted": printed("greedy"),
        "oom_score_adj": printed("besteffort").split()[-1],
    }
    run("systemctl", "daemon-reload")
    answer["limitsAfterReload"] = all_limits()

    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    daemon = start_daemon()
    until("the daemon is back", lambda: len(pods()) == 4)
    again = {name: comes_to(name, "Running") for name in PODS}
    answer["sameContainers"] = all(container_id(again[name]) == container_id(running[name]) for name in PODS)
    answer["limitsAfterRestart"] = all_limits()

    take("guaranteed", "burstable")
    until("two pods are gone", lambda: set(pods()) == {"besteffort", "greedy"})
    answer["slicesAfterRemoval"] = slices()
    answer["unitsAfterRemoval"] = [
        line.split()[0]
        for line in run("systemctl", "list-units", "--all", "--plain", "--no-legend", "kubepods*").splitlines()
    ]
    answer["classAfterRemoval"] = limits(FOLDERS["classBurstable"])
    take("besteffort", "greedy")
    until("all pods are gone", lambda: not pods())
    daemon.terminate()
    daemon.wait(60)
    answer["log"] = LOG.read_text()
    return answer


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask()) + "\n")
