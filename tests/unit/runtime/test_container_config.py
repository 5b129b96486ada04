from __future__ import annotations

import json
import re
from typing import Any

import pytest

from minikubelet.api.definition import container_hash
from minikubelet.api.pod import Container
from minikubelet.runtime.mapping import (
    ContainerInputs,
    ImageFacts,
    MountError,
    SwapControl,
    container_config,
)
from minikubelet.runtime.mapping.resources import quota, shares
from minikubelet.runtime.pb import cri_pb2
from tests.unit.runtime.build import INPUTS, NODE, container, made, node, pod

MIB = 1 << 20


def test_cc_1_the_attempt_is_the_restart_count() -> None:
    meta = made(restart_count=4).metadata
    assert (meta.name, meta.attempt) == ("main", 4)


def test_cc_2_the_image_is_the_runtimes_reference_beside_the_name_as_written() -> None:
    image = made().image
    assert (image.image, image.user_specified_image) == ("sha256:abc", "busybox:1.36")


def test_cc_3_and_ev_2_command_and_args_expand_with_env_that_expands_with_what_stands_before_it() -> None:
    """13/expansion."""
    of = container(
        env=[
            {"name": "A", "value": "va"},
            {"name": "B", "value": "$(A)-$(C)-$$(A)"},
            {"name": "SELF", "value": "$(SELF)"},
            {"name": "C"},
            {"name": "A", "value": "again"},
        ],
        command=["run", "$(A)", "$$(A)"],
        args=["$(B)", "$(NO)", "$( x"],
        workingDir="/w/$(A)",
    )
    config = made(of)
    assert [(e.key, e.value) for e in config.envs] == [
        ("A", "again"),
        ("B", "va-$(C)-$(A)"),
        ("SELF", "$(SELF)"),
        ("C", ""),
    ]
    assert list(config.command) == ["run", "again", "$(A)"]
    assert list(config.args) == ["va-$(C)-$(A)", "$(NO)", "$( x"]
    assert config.working_dir == "/w/$(A)"


def test_cc_3_an_empty_command_stays_empty() -> None:
    assert not made().command
    assert not made().args


def test_cc_4_log_path_and_terminal() -> None:
    config = made(container(stdin=True, stdinOnce=True, tty=True), restart_count=2)
    assert config.log_path == "main/2.log"
    assert (config.stdin, config.stdin_once, config.tty) == (True, True, True)


def test_cc_5_exactly_four_labels_and_none_of_the_pods() -> None:
    of = container()
    assert made(of, within=pod(of, metadata={"labels": {"app": "x"}})).labels == {
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u-1",
        "io.kubernetes.container.name": "main",
    }


def test_cc_7_annotations_of_a_plain_container() -> None:
    of = container(terminationMessagePath="/msg", terminationMessagePolicy="FallbackToLogsOnError")
    assert made(of, restart_count=3, within=pod(of, terminationGracePeriodSeconds=9)).annotations == {
        "io.kubernetes.container.hash": "42f056bf",
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/msg",
        "io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
        "io.kubernetes.pod.terminationGracePeriod": "9",
        "minikubelet/root": "/var/lib/mk",
        "minikubelet/image": "busybox:1.36",
    }


def test_cc_7_annotations_of_ports_and_a_pre_stop_hook() -> None:
    ports = [
        {"name": "http", "hostPort": 18080, "containerPort": 80},
        {"containerPort": 9, "protocol": "UDP", "hostIP": "1.2.3.4"},
    ]
    of = container(ports=ports, lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "true"]}}})
    annotations = made(of).annotations
    assert annotations["io.kubernetes.container.preStopHandler"] == '{"exec":{"command":["sh","-c","true"]}}'
    assert annotations["io.kubernetes.container.ports"] == (
        '[{"name":"http","hostPort":18080,"containerPort":80,"protocol":"TCP"},'
        '{"containerPort":9,"protocol":"UDP","hostIP":"1.2.3.4"}]'
    )
    assert json.loads(annotations["io.kubernetes.container.ports"])


@pytest.mark.parametrize(("name", "expected"), [("side", "f74f20e9"), ("main", "42f056bf")])
def test_cc_8_the_hash_is_the_kubelets(name: str, expected: str) -> None:
    assert container_hash(Container(name=name, image="busybox:1.36")) == expected


def test_cc_8_the_hash_has_no_leading_zeros_and_is_lowercase() -> None:
    hashes = [container_hash(Container(name=f"c{i}", image="x")) for i in range(200)]
    assert all(re.fullmatch(r"[1-9a-f][0-9a-f]*", value) for value in hashes)
    assert len(set(hashes)) == 200


def test_cc_9_and_cc_10_neither_devices_nor_a_stop_signal_are_ever_sent() -> None:
    """The messages have no such fields here; what would need them is refused at intake."""
    fields = {field.name for field in cri_pb2.ContainerConfig.DESCRIPTOR.fields}
    assert not fields & {"devices", "CDI_devices", "stop_signal"}


MOUNTS: list[dict[str, Any]] = [
    {"name": "data", "mountPath": "data"},
    {"name": "conf", "mountPath": "/conf", "readOnly": True},
]
VOLUMES: list[dict[str, Any]] = [{"name": "data", "emptyDir": {}}, {"name": "conf", "hostPath": {"path": "/etc/conf"}}]


def _mounts(mounts: list[dict[str, Any]], volumes: list[dict[str, Any]], **inputs: Any) -> list[tuple[str, str, bool]]:
    of = container(volumeMounts=mounts)
    config = made(of, within=pod(of, volumes=volumes), volumes={"data": "/v/data", "conf": "/etc/conf"}, **inputs)
    return [(m.container_path, m.host_path, m.readonly) for m in config.mounts]


def test_mt_1_the_containers_mounts_then_hosts_then_the_termination_log() -> None:
    assert _mounts(MOUNTS, VOLUMES, hosts_file="/p/etc-hosts", termination_log="/p/t/1a") == [
        ("/data", "/v/data", False),
        ("/conf", "/etc/conf", True),
        ("/etc/hosts", "/p/etc-hosts", False),
        ("/dev/termination-log", "/p/t/1a", False),
    ]


def test_mt_4_a_mount_of_ones_own_on_etc_hosts_wins() -> None:
    mounts = [{"name": "data", "mountPath": "/etc/hosts"}]
    assert _mounts(mounts, VOLUMES, hosts_file="/p/etc-hosts") == [("/etc/hosts", "/v/data", False)]


def test_mt_4_and_mt_6_without_an_address_or_a_file_there_is_no_mount() -> None:
    assert _mounts([], []) == []


def test_mt_2_volumes_whose_content_is_ours_are_read_only_whatever_the_mount_says() -> None:
    volumes = [{"name": "data", "configMap": {"name": "x"}}]
    assert _mounts([{"name": "data", "mountPath": "/c"}], volumes) == [("/c", "/v/data", True)]


def test_mt_7_a_missing_volume() -> None:
    of = container(volumeMounts=[{"name": "no", "mountPath": "/x"}])
    with pytest.raises(MountError, match=re.escape('cannot find volume "no" to mount into container "main"')):
        made(of)


@pytest.mark.parametrize(
    ("image", "user", "name"),
    [
        pytest.param(ImageFacts(ref="r", uid=0), 0, "", id="SC-2 uid 0"),
        pytest.param(ImageFacts(ref="r", uid=1000), 1000, "", id="SC-2 uid"),
        pytest.param(ImageFacts(ref="r", username="app"), None, "app", id="SC-2 name"),
        pytest.param(ImageFacts(ref="r"), 0, "", id="SC-2 nothing"),
    ],
)
def test_user(image: ImageFacts, user: int | None, name: str) -> None:
    security = made(image=image).linux.security_context
    assert (security.run_as_user.value if security.HasField("run_as_user") else None) == user
    assert security.run_as_username == name
    assert not security.HasField("run_as_group")


def test_sc_2_the_facts_come_from_image_status() -> None:
    image = cri_pb2.Image(id="sha256:1", uid=cri_pb2.Int64Value(value=7))
    assert ImageFacts.of(image) == ImageFacts(ref="sha256:1", uid=7)
    assert ImageFacts.of(cri_pb2.Image(id="sha256:1", username="app")) == ImageFacts(ref="sha256:1", username="app")


@pytest.mark.parametrize(("default", "expected"), [(False, "Unconfined"), (True, "RuntimeDefault")])
def test_sc_6_seccomp_is_unconfined_unless_the_node_says_otherwise(*, default: bool, expected: str) -> None:
    of = container()
    config = container_config(
        pod(of), of, node(seccomp_default=default), ContainerInputs(restart_count=0, image=ImageFacts(ref="r"))
    )
    profile = config.linux.security_context.seccomp
    assert cri_pb2.SecurityProfile.ProfileType.Name(profile.profile_type) == expected


def test_sc_4_and_sc_9_privileges_are_neither_added_nor_taken() -> None:
    security = made().linux.security_context
    assert not security.no_new_privs
    assert not security.privileged
    assert not security.readonly_rootfs


def test_sc_8_masked_and_read_only_paths_are_always_sent() -> None:
    of = container()
    throttled = node(thermal_throttle_paths=("/sys/devices/system/cpu/cpu0/thermal_throttle",))
    security = container_config(
        pod(of), of, throttled, ContainerInputs(restart_count=0, image=ImageFacts(ref="r"))
    ).linux.security_context
    assert len(security.masked_paths) == 13
    assert {"/proc/kcore", "/sys/firmware", "/sys/devices/system/cpu/cpu0/thermal_throttle"} <= set(
        security.masked_paths
    )
    assert list(security.readonly_paths) == ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


@pytest.mark.parametrize(
    ("milli", "expected"), [(50, 51), (100, 102), (150, 153), (300, 307), (0, 2), (1, 2), (10**9, 262144)]
)
def test_lr_1_shares(milli: int, expected: int) -> None:  # 13/shares
    assert shares(milli) == expected


@pytest.mark.parametrize(("milli", "expected"), [(200, 20000), (100, 10000), (5, 1000), (0, 0)])
def test_lr_2_quota(milli: int, expected: int) -> None:  # 13/quota
    assert quota(milli, 100_000) == expected


def _resources(of: Any, at: Any = NODE) -> cri_pb2.LinuxContainerResources:
    return container_config(
        pod(of), of, at, ContainerInputs(restart_count=0, image=ImageFacts(ref="r"))
    ).linux.resources


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        pytest.param({}, {}, (2, 0, 0), id="LR-3 nothing"),
        pytest.param({"cpu": "100m", "memory": "64Mi"}, {}, (102, 0, 0), id="LR-3 requests"),
        pytest.param({}, {"cpu": "200m", "memory": "128Mi"}, (204, 20000, 128 * MIB), id="LR-3 limits stand in"),
        pytest.param({"cpu": "0"}, {"cpu": "200m"}, (2, 20000, 0), id="LR-3 a request of zero is a request"),
        pytest.param({"cpu": "0.0001"}, {"memory": "1500m"}, (2, 0, 2), id="both round up"),
    ],
)
def test_cpu_and_memory(requests: dict[str, str], limits: dict[str, str], expected: tuple[int, int, int]) -> None:
    resources = _resources(container(requests=requests, limits=limits))
    assert (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes) == expected
    assert resources.cpu_period == 100_000
    assert (resources.cpuset_cpus, resources.cpuset_mems) == ("", "")


def test_lr_3_with_cfs_quota_off_neither_quota_nor_period_is_sent() -> None:
    resources = _resources(container(limits={"cpu": "200m"}), node(cpu_cfs_quota=False))
    assert (resources.cpu_quota, resources.cpu_period) == (0, 0)


@pytest.mark.parametrize(
    ("given", "swap_limit", "unified"),
    [
        pytest.param({}, 0, {}, id="LR-5 no control over swap"),
        pytest.param({"swap_control": SwapControl.MEMSW}, 64 * MIB, {}, id="LR-5 v1"),
        pytest.param({"cgroup_v2": True}, 0, {"memory.oom.group": "1"}, id="LR-6 v2"),
        pytest.param({"cgroup_v2": True, "single_process_oom_kill": True}, 0, {}, id="LR-6 v2 singleProcessOOMKill"),
        pytest.param(
            {"cgroup_v2": True, "swap_control": SwapControl.SWAP_MAX},
            0,
            {"memory.oom.group": "1", "memory.swap.max": "0"},
            id="LR-5 v2",
        ),
    ],
)
def test_swap_and_oom_group(given: dict[str, Any], swap_limit: int, unified: dict[str, str]) -> None:
    resources = _resources(container(limits={"memory": "64Mi"}), node(**given))
    assert resources.memory_swap_limit_in_bytes == swap_limit
    assert dict(resources.unified) == unified


def test_lr_7_one_huge_page_limit_for_each_size_of_the_host() -> None:
    of = container(limits={"hugepages-2Mi": "4Mi", "cpu": "1"})
    limits = _resources(of, node(hugepage_sizes=("2MB", "1GB"))).hugepage_limits
    assert [(limit.page_size, limit.limit) for limit in limits] == [("2MB", 4 * MIB), ("1GB", 0)]


def _score(of: Any, *others: Any, init: tuple[Any, ...] = ()) -> int:
    mains = (*others,) if of in init else (of, *others)
    return container_config(
        pod(*mains, init=init), of, NODE, ContainerInputs(restart_count=0, image=ImageFacts(ref="r"))
    ).linux.resources.oom_score_adj


FULL = {"cpu": "1", "memory": "1Gi"}
SIDE = container("side", requests={"memory": "32Mi"}, restartPolicy="Always")
INIT = container("init", requests={"memory": "32Mi"})
BIG = container(requests={"memory": "6Gi"})
SMALL = container(requests={"memory": "64Mi"})


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        pytest.param(_score(container(requests=FULL, limits=FULL)), -997, id="LR-8 Guaranteed"),
        pytest.param(_score(container()), 1000, id="LR-8 BestEffort"),
        pytest.param(_score(BIG), 746, id="LR-8 6Gi"),
        pytest.param(_score(container(requests={"cpu": "1"})), 999, id="LR-8 no memory request"),
        pytest.param(_score(container(requests={"memory": "1Ti"})), 3, id="LR-8 never below 3"),
        pytest.param(_score(SIDE, SMALL, init=(SIDE,)), 998, id="LR-8 a sidecar is as safe as its main"),
        pytest.param(_score(SIDE, BIG, container("x"), init=(SIDE,)), 999, id="LR-8 a main without request counts 0"),
        pytest.param(_score(INIT, BIG, init=(INIT,)), 999, id="LR-8 a plain init container stands for itself"),
        pytest.param(_score(SIDE, BIG, init=(SIDE,)), 746, id="LR-8 a sidecar of a big main"),
    ],
)
def test_oom_score_adj(score: int, expected: int) -> None:
    assert score == expected


def _within(of: Any, at: Any = NODE, **spec: Any) -> cri_pb2.LinuxContainerResources:
    return container_config(pod(of, **spec), of, at, INPUTS).linux.resources


def test_lr_3_a_limit_of_the_pod_counts_for_a_container_that_has_none() -> None:
    whole = {"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "1"}}
    resources = _within(container(), resources=whole)
    assert (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes) == (2048, 200_000, 64 * MIB)
    own = _within(container(requests={"cpu": "1"}, limits={"cpu": "1", "memory": "0"}), resources=whole)
    assert (own.cpu_shares, own.cpu_quota, own.memory_limit_in_bytes) == (1024, 100_000, 64 * MIB)


@pytest.mark.parametrize(
    ("name", "memory", "expected"),
    [
        pytest.param("system-node-critical", "64Mi", -997, id="LR-8 critical for the node"),
        pytest.param("system-cluster-critical", "64Mi", 998, id="LR-8 critical for a cluster is not"),
        pytest.param("mine", "64Mi", 998, id="LR-8 any other class"),
    ],
)
def test_oom_score_adj_by_priority_class(name: str, memory: str, expected: int) -> None:
    assert _within(container(requests={"memory": memory}), priorityClassName=name).oom_score_adj == expected


def test_lr_8_what_the_pod_asks_for_beyond_its_containers_is_shared_among_them() -> None:
    # 12Gi for the pod, 1Gi asked for by two containers: 11Gi // 2 more for each.
    side = container("side", requests={"memory": "1Gi"}, restartPolicy="Always")
    of = pod(container(), init=(side,), resources={"requests": {"memory": "12Gi"}})
    more = 11 * 2**30 // 2
    capacity = NODE.memory_capacity
    main_score = container_config(of, of.spec.containers[0], NODE, INPUTS).linux.resources.oom_score_adj
    side_score = container_config(of, side, NODE, INPUTS).linux.resources.oom_score_adj
    assert main_score == 1000 - 1000 * more // capacity
    assert side_score == 1000 - 1000 * (2**30 + more) // capacity


def _single_mount(mount: dict[str, Any], volume: dict[str, Any], **facts: Any) -> cri_pb2.Mount:
    of = container(volumeMounts=[{"name": "v", "mountPath": "/m", **mount}])
    within = pod(of, volumes=[{"name": "v", **volume}])
    (found,) = made(of, within=within, at=node(**facts), volumes={"v": "/v"}).mounts
    return found


@pytest.mark.parametrize(
    ("propagation", "expected"),
    [
        (None, "PRIVATE"),
        ("None", "PRIVATE"),
        ("HostToContainer", "HOST_TO_CONTAINER"),
        ("Bidirectional", "BIDIRECTIONAL"),
    ],
)
def test_mt_2_propagation(propagation: str | None, expected: str) -> None:
    mount = {"mountPropagation": propagation} if propagation else {}
    found = _single_mount(mount, {"hostPath": {"path": "/x"}})
    assert cri_pb2.MountPropagation.Name(found.propagation) == f"PROPAGATION_{expected}"


@pytest.mark.parametrize(
    ("source", "read_only"),
    [
        ({"configMap": {"name": "x"}}, True),
        ({"secret": {"secretName": "x"}}, True),
        ({"projected": {}}, True),
        ({"downwardAPI": {}}, True),
        ({"emptyDir": {}}, False),
        ({"hostPath": {"path": "/x"}}, False),
    ],
)
def test_mt_2_what_is_read_only_although_nobody_asked(source: dict[str, Any], *, read_only: bool) -> None:
    assert _single_mount({}, source).readonly is read_only
    assert _single_mount({"readOnly": True}, source).readonly


@pytest.mark.parametrize(
    ("source", "relabelled"),
    [
        ({"configMap": {"name": "x"}}, True),
        ({"secret": {"secretName": "x"}}, True),
        ({"projected": {}}, True),
        ({"downwardAPI": {}}, True),
        ({"emptyDir": {}}, True),
        ({}, True),
        ({"hostPath": {"path": "/x"}}, False),
        ({"persistentVolumeClaim": {"claimName": "x"}}, False),
    ],
)
def test_mt_2_on_a_host_with_selinux_what_is_the_pods_own_gets_its_label(
    source: dict[str, Any], *, relabelled: bool
) -> None:
    assert _single_mount({}, source, se_linux=True).selinux_relabel is relabelled
    assert not _single_mount({}, source).selinux_relabel


def test_mt_2_on_a_host_with_selinux_the_files_that_every_container_has_get_its_label() -> None:
    of = container()
    for se_linux in (True, False):
        mounts = made(of, at=node(se_linux=se_linux), hosts_file="/p/etc-hosts", termination_log="/p/t/1a").mounts
        assert [mount.selinux_relabel for mount in mounts] == [se_linux, se_linux]


@pytest.mark.parametrize(
    ("wanted", "handlers", "expected"),
    [
        (None, {""}, False),
        ("Disabled", {""}, False),
        ("IfPossible", {""}, True),
        ("IfPossible", set(), False),
        ("IfPossible", {"other"}, False),
        ("Enabled", {""}, True),
    ],
)
def test_mt_3_read_only_all_the_way_down(wanted: str | None, handlers: set[str], *, expected: bool) -> None:
    mount = {"readOnly": True} | ({"recursiveReadOnly": wanted} if wanted else {})
    found = _single_mount(mount, {"emptyDir": {}}, recursive_read_only=frozenset(handlers))
    assert found.recursive_read_only is expected


def test_mt_3_a_runtime_that_cannot_is_told_from_one_that_can() -> None:
    text = (
        'failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, '
        "but it is not supported by the runtime"
    )
    with pytest.raises(MountError, match=f"^{text}$"):
        _single_mount({"readOnly": True, "recursiveReadOnly": "Enabled"}, {"emptyDir": {}})


def test_mt_9_the_place_that_was_made_for_a_sub_path_is_mounted() -> None:
    mounts = [{"name": "v", "mountPath": "/whole"}, {"name": "v", "mountPath": "/part", "subPath": "a"}]
    of = container(volumeMounts=mounts)
    within = pod(of, volumes=[{"name": "v", "emptyDir": {}}])
    config = made(of, within=within, volumes={"v": "/v"}, subpaths={1: "/places/1"})
    assert [(m.container_path, m.host_path) for m in config.mounts] == [("/whole", "/v"), ("/part", "/places/1")]


IMAGE_VOLUME = {"image": {"reference": "data:1"}}


def test_an_image_is_mounted_by_the_runtime_read_only() -> None:
    of = container(volumeMounts=[{"name": "v", "mountPath": "/data"}])
    within = pod(of, volumes=[{"name": "v", **IMAGE_VOLUME}])
    (mount,) = made(of, within=within, at=node(image_volumes=True), volumes={"v": ""}, images={"v": "sha256:1"}).mounts
    assert (mount.container_path, mount.host_path, mount.readonly) == ("/data", "", True)
    assert (mount.image.image, mount.image.user_specified_image) == ("sha256:1", "data:1")


@pytest.mark.parametrize(
    ("mount", "can", "message"),
    [
        ({}, False, 'volume "v" is an image, which containerd can mount from version 2.1 on'),
        ({"subPath": "a"}, True, 'volume "v" is an image, of which no subPath can be mounted; mount all of it'),
    ],
)
def test_an_image_that_cannot_be_mounted(mount: dict[str, Any], *, can: bool, message: str) -> None:
    with pytest.raises(MountError, match=f"^{message}$"):
        _single_mount(mount, IMAGE_VOLUME, image_volumes=can)
