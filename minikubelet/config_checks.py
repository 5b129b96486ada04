"""What the types of the configuration's keys cannot say: ranges, and keys that go together. For `config_file`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from minikubelet.config import API_VERSION, FEATURE_GATES, KIND, Config
from minikubelet.node import settings

_DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def problems_of(config: Config) -> Iterator[tuple[str, str]]:
    """Keys whose values cannot be, and why."""
    checks: dict[str, Callable[[], str | None]] = {
        "apiVersion": lambda: _unless(config.api_version == API_VERSION, f"has to be {API_VERSION}"),
        "kind": lambda: _unless(config.kind == KIND, f"has to be {KIND}"),
        "staticPodPath": lambda: _absolute(config.static_pod_path),
        "imageArchivesPath": lambda: _absolute(config.image_archives_path),
        "rootDir": lambda: _absolute(config.root_dir),
        "podLogsDir": lambda: _absolute(config.pod_logs_dir),
        "resolvConf": lambda: None if not config.resolv_conf else _absolute(Path(config.resolv_conf)),
        "cgroupRoot": lambda: None if not config.cgroup_root else _absolute(Path(config.cgroup_root)),
        "fileCheckFrequency": lambda: _unless(config.file_check_frequency >= 1, "has to be 1s or more"),
        "syncFrequency": lambda: _unless(config.sync_frequency >= 1, "has to be 1s or more"),
        "containerRuntimeEndpoint": lambda: _unless(
            config.container_runtime_endpoint.startswith(("unix:///", "/")),
            "has to be the path of containerd's socket, such as unix:///run/containerd/containerd.sock",
        ),
        "address": lambda: loopback_problem(config.address),
        "nodeName": lambda: _unless(
            not config.node_name or _DNS_SUBDOMAIN.fullmatch(config.node_name) is not None,
            "has to be a DNS name: lower-case letters, digits, '-' and '.'",
        ),
        "nodeIP": lambda: None if not config.node_ip else _not_an_ip(config.node_ip),
        "systemReserved": lambda: settings.reserved_problem(config.system_reserved),
        "kubeReserved": lambda: settings.reserved_problem(config.kube_reserved),
        "evictionHard": lambda: settings.thresholds_problem(config.eviction_hard),
        "cpuCFSQuotaPeriod": lambda: _unless(0.001 <= config.cpu_cfs_quota_period <= 1, "has to be from 1ms to 1s"),
        "allowedUnsafeSysctls": lambda: settings.sysctls_problem(config.allowed_unsafe_sysctls),
        "nodeLabels": lambda: settings.labels_problem(config.node_labels),
        "runtimeClasses": lambda: settings.runtime_classes_problem(config.runtime_classes),
        "clusterDNS": lambda: next(filter(None, map(_not_an_ip, config.cluster_dns)), None),
        "maxParallelImagePulls": lambda: _unless(
            not config.serialize_image_pulls or config.max_parallel_image_pulls in (None, 1),
            "has no meaning while serializeImagePulls is true; set that to false",
        ),
        "containerLogMaxSize": lambda: settings.log_size_problem(config.container_log_max_size),
        "containerLogMaxFiles": lambda: _unless(
            config.container_log_max_files >= 2, "has to be 2 or more: the log that is written and one before it"
        ),
        "imageGCLowThresholdPercent": lambda: _unless(
            config.image_gc_low_threshold_percent < config.image_gc_high_threshold_percent,
            f"has to be below imageGCHighThresholdPercent, which is {config.image_gc_high_threshold_percent}",
        ),
        "imageMaximumGCAge": lambda: _unless(
            not config.image_maximum_gc_age or config.image_maximum_gc_age > config.image_minimum_gc_age,
            f"has to be more than imageMinimumGCAge, which is {config.image_minimum_gc_age:g}s, or 0s for no limit",
        ),
        "crashLoopBackOff.maxContainerRestartPeriod": lambda: _unless(
            1 <= config.crash_loop_back_off.max_container_restart_period <= 300, "has to be from 1s to 300s"
        ),
    }
    for key, check in checks.items():
        if (message := check()) is not None:
            yield key, message
    for gate in config.feature_gates.keys() - FEATURE_GATES:
        yield "featureGates", f"unknown gate {gate}; known: {', '.join(sorted(FEATURE_GATES))}"


def loopback_problem(address: str) -> str | None:
    """Why the read-only server must not listen there; None when it may."""
    try:
        if ipaddress.ip_address(address).is_loopback:
            return None
    except ValueError:
        return f"{address!r} is not an IP address; use 127.0.0.1 or ::1"
    return (
        f"{address} can be reached from other hosts, and the read-only port asks nobody who they are; "
        "use 127.0.0.1 or ::1, and a proxy with authentication in front of it if others are to see it"
    )


def _unless(fine: bool, message: str) -> str | None:
    return None if fine else message


def _absolute(path: Path) -> str | None:
    return _unless(path.is_absolute(), f"{path} has to be an absolute path")


def _not_an_ip(text: str) -> str | None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return f"{text!r} is not an IP address"
    return None
