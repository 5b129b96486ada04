"""The daemon's configuration: a YAML file with the kubelet's keys where they mean the same, and flags that override it.

`load` is called by the `run` command; `daemon` takes the `Config`. Reading is strict: every unknown key, wrong type
and bad value is told with its line, all at once. configs/config.yaml explains each key and is tested to agree with
the defaults here.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from minikubelet.api import durations
from minikubelet.api.base import kubernetes_name
from minikubelet.api.documents import Mapping as MappingNode
from minikubelet.api.documents import Node, Scalar, Sequence, read_documents
from minikubelet.node import settings
from minikubelet.runtime.capacity import THRESHOLDS

API_VERSION = "minikubelet.config/v1"
KIND = "MinikubeletConfiguration"
FEATURE_GATES = frozenset({"SidecarContainers"})

_DNS_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
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


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename=_config_name):
    pass


class CrashLoopBackOff(_Section, frozen=True, kw_only=True):
    max_container_restart_period: Seconds = 300


class Logging(_Section, frozen=True, kw_only=True):
    format: Literal["auto", "text", "json"] = "auto"


class Config(_Section, frozen=True, kw_only=True):
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


class ConfigError(Exception):
    """The configuration cannot be used; `problems` has everything that is wrong with it, a line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load(file: Path | None, *, overrides: Mapping[str, tuple[str, Any]] | None = None) -> Config:
    """Read `file` (None: only defaults). `overrides`: key -> (the flag that sets it, value); they win over the file.

    Raises ConfigError with everything that is wrong.
    """
    problems = _Problems()
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = parse(file.read_bytes(), name=str(file), problems=problems)
        except OSError as error:
            raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from error
    types = get_type_hints(Config, include_extras=True)
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(Config)}
    for key, (flag, value) in (overrides or {}).items():
        problems.places[key] = flag
        values[fields[key]] = problems.converted(value, types[fields[key]], key)
    if not problems.found:
        config = Config(**values)
        _check(config, problems)
    if problems.found:
        raise ConfigError(problems.found)
    return config


class _Problems:
    """Collects what is wrong, with where each key came from."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.places: dict[str, str] = {}

    def add(self, key: str, message: str) -> None:
        place = self.places.get(key, "")
        self.found.append(f"{place}{': ' if place else ''}{key}: {message}")

    def converted(self, value: Any, type_: Any, key: str) -> Any:
        """`value` as a `type_`; None, and a problem, when it cannot be."""
        try:
            if type_ == Seconds:
                return durations.parse(str(value))
            return msgspec.convert(value, type_, dec_hook=lambda own, text: own(str(text)))
        except (msgspec.ValidationError, durations.DurationError) as error:
            self.add(key, str(error).replace(" - at `$", " - at `" + key).replace("`", ""))
        return None


def parse(data: bytes, *, name: str, problems: _Problems) -> dict[str, Any]:
    """The values that the file sets, by attribute of `Config`; what is wrong goes to `problems`."""
    read = read_documents(data, is_json=name.endswith(".json"))
    problems.found += [f"{name}:{e.line}: {e.path + ': ' if e.path else ''}{e.message}" for e in read.errors]
    if len(read.documents) > 1:
        problems.found.append(f"{name}: has {len(read.documents)} documents; the configuration is a single one")
    if not read.documents:
        return {}
    root = read.documents[0].root
    if not isinstance(root, MappingNode):
        problems.found.append(f"{name}:{root.line}: the configuration has to be a mapping of keys to values")
        return {}
    return _section(root, Config, name=name, prefix="", problems=problems)


def _section(
    node: MappingNode, type_: type[_Section], *, name: str, prefix: str, problems: _Problems
) -> dict[str, Any]:
    types = get_type_hints(type_, include_extras=True)
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(type_)}
    values: dict[str, Any] = {}
    for key, child in node.items.items():
        path = prefix + key
        problems.places[path] = f"{name}:{node.lines[key]}"
        if key not in fields:
            close = difflib.get_close_matches(key, fields, n=1)
            problems.add(path, "unknown key" + (f"; did you mean {prefix}{close[0]}?" if close else ""))
            continue
        wanted = types[fields[key]]
        if isinstance(wanted, type) and issubclass(wanted, _Section):
            if isinstance(child, MappingNode):
                inner = _section(child, wanted, name=name, prefix=f"{path}.", problems=problems)
                values[fields[key]] = None if None in inner.values() else wanted(**inner)
            else:
                problems.add(path, "has to be a mapping of keys to values")
        else:
            values[fields[key]] = problems.converted(_plain(child), wanted, path)
    return values


def _plain(node: Node) -> Any:
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [_plain(item) for item in node.items]
        case MappingNode():
            return {key: _plain(item) for key, item in node.items.items()}


def _check(config: Config, problems: _Problems) -> None:
    """What types cannot say."""
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
            problems.add(key, message)
    for gate in config.feature_gates.keys() - FEATURE_GATES:
        problems.add("featureGates", f"unknown gate {gate}; known: {', '.join(sorted(FEATURE_GATES))}")


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
