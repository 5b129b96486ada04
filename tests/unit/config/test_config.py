"""The configuration: strict, all errors at once with their lines, and a sample file that tells the truth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from minikubelet.config import Config
from minikubelet.config_file import ConfigError, load

NO_DURATION = "is not a duration; write a number with a unit, such as 300ms, 10s, 1m30s or 2h"
OWN_SYSCTLS = "net.*, kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*"
SOCKET = "unix:///run/containerd/containerd.sock"
SAMPLE = Path(__file__).parents[3] / "configs" / "config.yaml"


def problems(tmp_path: Path, text: str, **overrides: tuple[str, Any]) -> list[str]:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, overrides=overrides)
    return [problem.replace(f"{file}:", "") for problem in caught.value.problems]


def uncommented() -> str:
    return "\n".join(line[1:] for line in SAMPLE.read_text().splitlines() if re.match(r"#( {2})?[a-zA-Z]+:", line))


def test_the_sample_file_as_it_is_changes_nothing() -> None:
    assert load(SAMPLE) == Config()


def test_the_sample_file_names_every_key_with_its_default(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(uncommented())
    assert load(file) == Config()
    keys = yaml.safe_load(uncommented())
    assert list(keys) == [field.encode_name for field in msgspec.structs.fields(Config)]
    for section in ("crashLoopBackOff", "logging"):
        attribute = {f.encode_name: f.name for f in msgspec.structs.fields(Config)}[section]
        assert list(keys[section]) == [f.encode_name for f in msgspec.structs.fields(getattr(Config(), attribute))]


def test_keys_are_the_kubelets() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(Config)}
    assert {"staticPodPath", "clusterDNS", "nodeIP", "crashLoopBackOff", "podLogsDir", "readOnlyPort"} <= names


def test_values_are_read_and_typed(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "staticPodPath: /srv/pods\nfileCheckFrequency: 1m30s\nclusterDNS: [10.0.0.1]\nserializeImagePulls: no\n"
        "maxParallelImagePulls: 3\ncrashLoopBackOff:\n  maxContainerRestartPeriod: 10s\n"
        "featureGates:\n  SidecarContainers: false\nlogging: {format: json}\n"
        "podPidsLimit: 500\ncpuCFSQuotaPeriod: 10ms\nsystemReserved: {cpu: 1, memory: 1Gi}\n"
        "nodeLabels: {disk: ssd}\nruntimeClasses: {gvisor: runsc}\nallowedUnsafeSysctls: ['net.*', kernel.msgmax]\n"
    )
    config = load(file)
    assert config.pod_pids_limit == 500
    assert config.cpu_cfs_quota_period == 0.01
    assert config.system_reserved == {"cpu": 1, "memory": "1Gi"}
    assert config.runtime_classes == {"gvisor": "runsc"}
    assert config.static_pod_path == Path("/srv/pods")
    assert config.file_check_frequency == 90
    assert config.cluster_dns == ("10.0.0.1",)
    assert config.image_pulls_at_once == 3
    assert config.crash_loop_back_off.max_container_restart_period == 10
    assert not config.sidecar_containers
    assert config.logging.format == "json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("static_pod_path: /x", ["1: static_pod_path: unknown key; did you mean staticPodPath?"]),
        ("zzz: 1", ["1: zzz: unknown key"]),
        ("logging:\n  fromat: json", ["2: logging.fromat: unknown key; did you mean logging.format?"]),
        ("logging: text", ["1: logging: has to be a mapping of keys to values"]),
        ("logging:\n  format: xml", ["2: logging.format: Invalid enum value 'xml'"]),
        ("maxPods: many", ["1: maxPods: Expected int, got str"]),
        ("maxPods: -1", ["1: maxPods: Expected int >= 0"]),
        ("readOnlyPort: 70000", ["1: readOnlyPort: Expected int <= 65535"]),
        ("clusterDNS: [10.0.0.1, 7]", ["1: clusterDNS: Expected str, got int - at clusterDNS[1]"]),
        (
            "fileCheckFrequency: 20",
            [f"1: fileCheckFrequency: '20' {NO_DURATION}"],
        ),
        ("fileCheckFrequency: 0", ["1: fileCheckFrequency: has to be 1s or more"]),
        ("a: 1\na: 2\n", ["2: a: Duplicate key: already given in line 1", "1: a: unknown key"]),
        ("- a", ["1: the configuration has to be a mapping of keys to values"]),
        ("nodeName: 'a'\n---\nnodeName: 'b'", [" has 2 documents; the configuration is a single one"]),
        ("kind: KubeletConfiguration", ["1: kind: has to be MinikubeletConfiguration"]),
        ("nodeName: Big_Box", ["1: nodeName: has to be a DNS name: lower-case letters, digits, '-' and '.'"]),
        ("nodeIP: localhost", ["1: nodeIP: 'localhost' is not an IP address"]),
        ("rootDir: lib", ["1: rootDir: lib has to be an absolute path"]),
        ("featureGates: {X: true}", ["1: featureGates: unknown gate X; known: SidecarContainers"]),
        (
            "maxParallelImagePulls: 4",
            ["1: maxParallelImagePulls: has no meaning while serializeImagePulls is true; set that to false"],
        ),
        (
            "imageGCHighThresholdPercent: 80",
            ["imageGCLowThresholdPercent: has to be below imageGCHighThresholdPercent, which is 80"],
        ),
        (
            "imageMaximumGCAge: 1m",
            ["1: imageMaximumGCAge: has to be more than imageMinimumGCAge, which is 120s, or 0s for no limit"],
        ),
        (
            "imageArchivesPath: images",
            ["1: imageArchivesPath: images has to be an absolute path"],
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            ["1: crashLoopBackOff.maxContainerRestartPeriod: has to be from 1s to 300s"],
        ),
        ("systemReserved: {gpu: 1}", ["1: systemReserved: gpu cannot be reserved; cpu, memory, ephemeral-storage can"]),
        (
            "kubeReserved: {memory: 1Zi}",
            ["1: kubeReserved: memory: 1Zi must be a quantity such as 2, 0.5, 100m, 64Mi or 1Gi"],
        ),
        ("kubeReserved: {cpu: -1}", ["1: kubeReserved: cpu: -1 has to be 0 or more"]),
        (
            "evictionHard: {imagefs.available: 15%}",
            ["1: evictionHard: imagefs.available is not used here; memory.available, nodefs.available are"],
        ),
        (
            "evictionHard: {nodefs.available: 101%}",
            ["1: evictionHard: nodefs.available: 101% has to be a percentage from 0% to 100%"],
        ),
        (
            "evictionHard: {memory.available: x%}",
            ["1: evictionHard: memory.available: x% has to be a percentage from 0% to 100%"],
        ),
        ("podPidsLimit: -2", ["1: podPidsLimit: Expected int >= -1"]),
        ("cpuCFSQuotaPeriod: 2s", ["1: cpuCFSQuotaPeriod: has to be from 1ms to 1s"]),
        (
            "allowedUnsafeSysctls: [vm.*]",
            [f"1: allowedUnsafeSysctls: 'vm.*' is the whole host's; of each pod's own are only {OWN_SYSCTLS}"],
        ),
        (
            "allowedUnsafeSysctls: [net/core/somaxconn]",
            [
                "1: allowedUnsafeSysctls: 'net/core/somaxconn' has to be written with dots: 'net.core.somaxconn'",
            ],
        ),
        (
            "allowedUnsafeSysctls: ['*']",
            ["1: allowedUnsafeSysctls: '*' has to be the name of a sysctl, or the beginning of one and a *"],
        ),
        ("nodeLabels: {kubernetes.io/os: bsd}", ["1: nodeLabels: kubernetes.io/os is set by itself"]),
        ("nodeLabels: {/x: a}", ["1: nodeLabels: /x: prefix part must be non-empty"]),
        (
            "runtimeClasses: {gvisor: ''}",
            ["1: runtimeClasses: gvisor: name the runtime's handler for it, such as runsc"],
        ),
        (
            "containerLogMaxSize: 0",
            ["1: containerLogMaxSize: 0 would put every log aside again and again; -1 never does"],
        ),
        (
            "containerLogMaxSize: big",
            ["1: containerLogMaxSize: big must be a quantity such as 2, 0.5, 100m, 64Mi or 1Gi"],
        ),
        (
            "containerLogMaxFiles: 1",
            ["1: containerLogMaxFiles: has to be 2 or more: the log that is written and one before it"],
        ),
        (
            "containerRuntimeEndpoint: tcp://1.2.3.4:1",
            [f"1: containerRuntimeEndpoint: has to be the path of containerd's socket, such as {SOCKET}"],
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, text) == expected


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, "maxPods: x\nnope: 1\nlogging: {format: xml}\n")
    assert [problem.split(":")[0] for problem in found] == ["1", "2", "3"]


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "::", "localhost"])  # noqa: S104
def test_only_loopback_addresses_are_accepted_for_the_read_only_port(tmp_path: Path, address: str) -> None:
    (problem,) = problems(tmp_path, f"address: '{address}'")
    assert problem.startswith("1: address: ")
    assert "127.0.0.1 or ::1" in problem


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_addresses_are_fine(tmp_path: Path, address: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"address: '{address}'")
    assert load(file).address == address


def test_flags_win_over_the_file_and_are_named_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("staticPodPath: /from/file\n")
    assert load(file, overrides={"staticPodPath": ("--manifests", "/from/flag")}).static_pod_path == Path("/from/flag")
    assert problems(tmp_path, "", staticPodPath=("--manifests", "x")) == [
        "--manifests: staticPodPath: x has to be an absolute path"
    ]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_the_node_is_named_after_the_host_unless_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Box.Example")
    assert Config().node == "box.example"
    assert Config(node_name="edge-1").node == "edge-1"
