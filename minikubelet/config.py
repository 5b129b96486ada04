"""The daemon's configuration: the keys, their types and defaults; named as the kubelet's where they mean the same.

`config_file.load` makes a `Config` of a file and flags; `daemon` takes it. configs/config.yaml explains each key and is
tested to agree with the defaults here.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from minikubelet.api.base import kubernetes_name
from minikubelet.runtime.capacity import THRESHOLDS

API_VERSION = "minikubelet.config/v1"
KIND = "MinikubeletConfiguration"
FEATURE_GATES = frozenset({"SidecarContainers"})

_IRREGULAR = {
    "cluster_dns": "clusterDNS",
    "cpu_cfs_quota": "cpuCFSQuota",
    "cpu_cfs_quota_period": "cpuCFSQuotaPeriod",
    "single_process_oom_kill": "singleProcessOOMKill",
    "image_gc_high_threshold_percent": "imageGCHighThresholdPercent",
    "image_gc_low_threshold_percent": "imageGCLowThresholdPercent",
    "image_minimum_gc_age": "imageMinimumGCAge",
    "image_maximum_gc_age": "imageMaximumGCAge",
}


def _config_name(attribute: str) -> str:
    return _IRREGULAR.get(attribute) or kubernetes_name(attribute)


#: Kubernetes quantities; small ones are written as plain numbers.
Quantities = dict[str, str | int | float]

#: Seconds, written as Go writes a duration: `20s`, `1m30s`, `250ms`.
Seconds = Annotated[float, "duration"]


Percent = Annotated[int, msgspec.Meta(ge=0, le=100)]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename=_config_name):
    pass


class CrashLoopBackOff(Section, frozen=True, kw_only=True):
    max_container_restart_period: Seconds = 300


class Logging(Section, frozen=True, kw_only=True):
    format: Literal["auto", "text", "json"] = "auto"


class Config(Section, frozen=True, kw_only=True):
    """Times in seconds. Paths are absolute. What each key means is said in configs/config.yaml."""

    api_version: str = API_VERSION
    kind: str = KIND
    static_pod_path: Path = Path("/etc/minikubelet/manifests")
    image_archives_path: Path = Path("/etc/minikubelet/images")
    file_check_frequency: Seconds = 20
    sync_frequency: Seconds = 60
    root_dir: Path = Path("/var/lib/minikubelet")
    pod_logs_dir: Path = Path("/var/log/pods")
    container_runtime_endpoint: str = "unix:///run/containerd/containerd.sock"
    address: str = "127.0.0.1"
    read_only_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 10255
    node_name: str = ""
    node_ip: str = ""
    max_pods: Annotated[int, msgspec.Meta(ge=0)] = 110
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    resolv_conf: str = "/etc/resolv.conf"
    cgroup_driver: Literal["", "cgroupfs", "systemd"] = ""
    cgroup_root: str = ""
    system_reserved: Quantities = {}
    kube_reserved: Quantities = {}
    eviction_hard: Quantities = msgspec.field(default_factory=lambda: {**THRESHOLDS})
    pod_pids_limit: Annotated[int, msgspec.Meta(ge=-1)] = -1
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: Seconds = 0.1
    single_process_oom_kill: bool = False
    seccomp_default: bool = False
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    node_labels: dict[str, str] = {}
    runtime_classes: dict[str, str] = {}
    serialize_image_pulls: bool = True
    max_parallel_image_pulls: Annotated[int, msgspec.Meta(ge=1)] | None = None
    container_log_max_size: str | int = "10Mi"
    container_log_max_files: int = 5
    image_gc_high_threshold_percent: Percent = 85
    image_gc_low_threshold_percent: Percent = 80
    image_minimum_gc_age: Seconds = 120
    image_maximum_gc_age: Seconds = 0
    crash_loop_back_off: CrashLoopBackOff = CrashLoopBackOff()
    feature_gates: dict[str, bool] = {}
    logging: Logging = Logging()

    @property
    def node(self) -> str:
        """The node's name: as configured, else the host's name in lower case."""
        return self.node_name or socket.gethostname().lower()

    @property
    def sidecar_containers(self) -> bool:
        """The feature gate SidecarContainers; true unless it is turned off."""
        return self.feature_gates.get("SidecarContainers", True)

    @property
    def image_pulls_at_once(self) -> int | None:
        """How many images may be pulled at the same time; None: any number."""
        return 1 if self.serialize_image_pulls else self.max_parallel_image_pulls
