from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from minikubelet.api.pod import Pod
from minikubelet.runtime.mapping import (
    DNSError,
    HostnameError,
    cgroup_parent,
    hosts_file,
    log_directory,
    sandbox_config,
)
from minikubelet.runtime.mapping.dns import dns_config
from minikubelet.runtime.pb import cri_pb2
from tests.unit.runtime.build import NODE, container, node, pod, sandbox

SIDECAR = {"restartPolicy": "Always"}


def test_sb_1_metadata_is_name_namespace_uid_and_attempt() -> None:
    meta = sandbox(attempt=3).metadata
    assert (meta.name, meta.namespace, meta.uid, meta.attempt) == ("web", "default", "u-1", 3)


def test_sb_3_labels_are_the_pods_own_and_three_that_override_them() -> None:
    labels = {"app": "x", "io.kubernetes.pod.name": "forged"}
    config = sandbox(pod(metadata={"labels": labels}))
    assert config.labels == {
        "app": "x",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u-1",
    }


def test_sb_3_annotations_are_the_pods_own_and_our_marks() -> None:
    of = pod(metadata={"annotations": {"note": "x", "minikubelet/root": "forged"}})
    annotations = sandbox(of).annotations
    assert set(annotations) == {"note", "minikubelet/root", "minikubelet/pod"}
    assert annotations["minikubelet/root"] == "/var/lib/mk"


def test_the_sandbox_carries_the_pod_itself_for_the_day_nothing_else_knows_it() -> None:
    of = pod(terminationGracePeriodSeconds=7)
    assert msgspec.json.decode(sandbox(of).annotations["minikubelet/pod"], type=Pod) == of


def test_sb_4_log_directory() -> None:
    assert sandbox().log_directory == log_directory(pod(), NODE) == "/var/log/pods/default_web_u-1"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, ("POD", "POD", "CONTAINER"), id="SB-10 default"),
        pytest.param({"hostNetwork": True}, ("NODE", "POD", "CONTAINER"), id="SB-10 hostNetwork"),
        pytest.param({"hostIPC": True}, ("POD", "NODE", "CONTAINER"), id="SB-10 hostIPC"),
        pytest.param({"hostPID": True}, ("POD", "POD", "NODE"), id="SB-10 hostPID"),
        pytest.param({"shareProcessNamespace": True}, ("POD", "POD", "POD"), id="SB-10 shareProcessNamespace"),
    ],
)
def test_namespaces(spec: dict[str, Any], expected: tuple[str, str, str]) -> None:
    options = sandbox(pod(**spec)).linux.security_context.namespace_options
    assert tuple(map(cri_pb2.NamespaceMode.Name, (options.network, options.ipc, options.pid))) == expected
    assert options.userns_options.mode == cri_pb2.NODE


def test_sb_12_seccomp_of_the_sandbox_is_always_the_runtimes_default() -> None:
    security = sandbox().linux.security_context
    assert security.HasField("seccomp")
    assert security.seccomp.profile_type == cri_pb2.SecurityProfile.RuntimeDefault
    assert not security.privileged
    assert not security.readonly_rootfs


def test_sb_14_resources_of_a_sidecar_and_a_main_are_sums() -> None:  # 13/sidecar
    sidecar = container("side", requests={"cpu": "50m", "memory": "32Mi"}, restartPolicy="Always")
    main = container(requests={"cpu": "100m", "memory": "64Mi"}, limits={"cpu": "200m", "memory": "128Mi"})
    linux = sandbox(pod(main, init=(sidecar,))).linux
    resources = linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (153, 20000, 100000)
    assert resources.memory_limit_in_bytes == 134217728
    assert linux.HasField("overhead")
    assert linux.overhead == cri_pb2.LinuxContainerResources()


def test_lr_9_who_is_killed_first_is_the_runtimes_choice_for_the_sandbox_itself() -> None:
    linux = sandbox(pod(container(requests={"memory": "6Gi"}))).linux
    assert (linux.resources.oom_score_adj, linux.overhead.oom_score_adj) == (0, 0)


def test_sb_14_overhead_is_sent_on_its_own_and_not_with_the_resources() -> None:
    of = pod(container(requests={"cpu": "100m"}), overhead={"cpu": "50m", "memory": "10Mi"})
    linux = sandbox(of).linux
    assert linux.resources.cpu_shares == 102
    assert (linux.overhead.cpu_shares, linux.overhead.cpu_quota, linux.overhead.cpu_period) == (51, 5000, 100000)
    assert linux.overhead.memory_limit_in_bytes == 10 * 2**20


def test_sb_14_with_cfs_quota_off_neither_quota_nor_period_is_sent() -> None:
    of = pod(container(limits={"cpu": "100m"}))
    resources = sandbox(of, at=node(cpu_cfs_quota=False)).linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (2, 0, 0)


def test_sb_14_a_plain_init_container_can_be_the_widest_moment() -> None:
    # RS-4: sidecar without requests, init container 300m, main without.
    of = pod(container(), init=(container("side", **SIDECAR), container("init", requests={"cpu": "300m"})))
    assert sandbox(of).linux.resources.cpu_shares == 307


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        pytest.param({}, {}, "web", id="HN-3 the pod's name"),
        pytest.param({"hostname": "db"}, {}, "db", id="HN-3 spec.hostname"),
        pytest.param({"hostNetwork": True}, {}, "", id="HN-1 host network"),
        pytest.param({"hostnameOverride": "over.ride", "subdomain": "s"}, {}, "over.ride", id="HN-2"),
        pytest.param({"hostname": "a" * 62 + "--b"}, {}, "a" * 62, id="HN-4 cut to 63, then without dashes"),
        pytest.param({"subdomain": "s"}, {"cluster_domain": "cl"}, "web", id="HN-6 short without setHostnameAsFQDN"),
        pytest.param(
            {"subdomain": "s", "setHostnameAsFQDN": True}, {"cluster_domain": "cl"}, "web.s.default.svc.cl", id="HN-6"
        ),
        pytest.param({"subdomain": "s", "setHostnameAsFQDN": True}, {}, "web.s.default.svc.", id="HN-5 no domain"),
        pytest.param({"setHostnameAsFQDN": True}, {"cluster_domain": "cl"}, "web", id="HN-6 no subdomain"),
    ],
)
def test_hostname(spec: dict[str, Any], given: dict[str, Any], expected: str) -> None:
    assert sandbox(pod(**spec), at=node(**given)).hostname == expected


def test_hn_6_a_full_name_over_64_characters_makes_no_sandbox() -> None:
    of = pod(hostname="h" * 30, subdomain="s" * 30, setHostnameAsFQDN=True)
    full = f"{'h' * 30}.{'s' * 30}.default.svc.cl"
    with pytest.raises(HostnameError) as caught:
        sandbox(of, at=node(cluster_domain="cl"))
    assert str(caught.value) == (
        f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
        f"(64 characters is the max, {len(full)} characters requested)"
    )


def test_hn_4_a_name_of_nothing_but_dashes_makes_no_sandbox() -> None:
    with pytest.raises(HostnameError, match=r'hostname for pod "web" was invalid: "-{64}"'):
        sandbox(pod(hostname="-" * 64))


def test_pm_1_ports_of_mains_then_sidecars_also_without_a_host_port() -> None:
    main = container(ports=[{"containerPort": 80, "hostPort": 8080, "hostIP": "1.2.3.4"}, {"containerPort": 90}])
    side = container("side", ports=[{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}], **SIDECAR)
    init = container("init", ports=[{"containerPort": 1, "hostPort": 1}])
    mapped = sandbox(pod(main, init=(side, init))).port_mappings
    assert [(m.protocol, m.container_port, m.host_port, m.host_ip) for m in mapped] == [
        (cri_pb2.TCP, 80, 8080, "1.2.3.4"),
        (cri_pb2.TCP, 90, 0, ""),
        (cri_pb2.UDP, 53, 53, ""),
    ]


def test_pm_2_doubles_within_a_container_are_left_out() -> None:
    ports = [
        {"containerPort": 80},
        {"containerPort": 80},
        {"name": "a", "containerPort": 1},
        {"name": "a", "containerPort": 2},
    ]
    ports += [{"containerPort": 80, "hostIP": "::1"}, {"containerPort": 80, "protocol": "UDP"}]
    assert [m.container_port for m in sandbox(pod(container(ports=ports))).port_mappings] == [80, 1, 80, 80]


def test_pm_3_on_the_hosts_network_the_list_is_sent_as_well() -> None:
    of = pod(container(ports=[{"containerPort": 80, "hostPort": 80}]), hostNetwork=True)
    assert [(m.container_port, m.host_port) for m in sandbox(of).port_mappings] == [(80, 80)]
    assert not sandbox(pod()).port_mappings


GUARANTEED = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "given", "expected"),
    [
        pytest.param({}, {}, "/kubepods/besteffort/podu-1", id="CG-2 besteffort"),
        pytest.param({"requests": {"cpu": "1"}}, {}, "/kubepods/burstable/podu-1", id="CG-2 burstable"),
        pytest.param({"requests": GUARANTEED, "limits": GUARANTEED}, {}, "/kubepods/podu-1", id="CG-2 guaranteed"),
        pytest.param({}, {"cgroup_root": "/mine/deep"}, "/mine/deep/kubepods/besteffort/podu-1", id="CG-2 cgroupRoot"),
        pytest.param(
            {},
            {"systemd_cgroups": True},
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu_1.slice",
            id="CG-2 systemd",
        ),
        pytest.param(
            {"requests": GUARANTEED, "limits": GUARANTEED},
            {"systemd_cgroups": True},
            "/kubepods.slice/kubepods-podu_1.slice",
            id="CG-2 systemd guaranteed",
        ),
        pytest.param(
            {"requests": GUARANTEED, "limits": GUARANTEED},
            {"systemd_cgroups": True, "cgroup_root": "/a-b"},
            "/a_b.slice/a_b-kubepods.slice/a_b-kubepods-podu_1.slice",
            id="CG-2 systemd cgroupRoot",
        ),
    ],
)
def test_cgroup_parent(resources: dict[str, Any], given: dict[str, Any], expected: str) -> None:
    of = pod(container(**resources))
    assert cgroup_parent(of, node(**given)) == expected
    assert sandbox(of, at=node(**given)).linux.cgroup_parent == expected


RESOLV = """# comment
nameserver 10.0.0.1 ignored
domain ignored
search first
search home.arpa. . lan
nameserver 10.0.0.2
options ndots:1 edns0
options ndots:2
"""
HOST = (["10.0.0.1", "10.0.0.2"], ["home.arpa", "lan"], ["ndots:2", "edns0"])
CLUSTER = {"cluster_dns": ("10.96.0.10",), "cluster_domain": "cl"}
IN_CLUSTER = (["10.96.0.10"], ["default.svc.cl", "svc.cl", "cl", "home.arpa", "lan"], ["ndots:5"])


@pytest.mark.parametrize(
    ("spec", "given", "expected", "reasons"),
    [
        pytest.param({"dnsPolicy": "Default"}, {}, HOST, [], id="DNS-1 host settings"),
        pytest.param({"dnsPolicy": "Default"}, CLUSTER, HOST, [], id="DNS-2 Default"),
        pytest.param({}, CLUSTER, IN_CLUSTER, [], id="DNS-2 ClusterFirst"),
        pytest.param(
            {},
            {"cluster_dns": ("10.96.0.10",)},
            (["10.96.0.10"], ["home.arpa", "lan"], ["ndots:5"]),
            [],
            id="DNS-2 ClusterFirst without a domain",
        ),
        pytest.param({}, {}, HOST, ["MissingClusterDNS"], id="DNS-2 ClusterFirst without cluster DNS"),
        pytest.param({"hostNetwork": True}, CLUSTER, HOST, [], id="DNS-2 ClusterFirst on the host's network"),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            CLUSTER,
            IN_CLUSTER,
            [],
            id="DNS-2 WithHostNet",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}},
            {},
            (["1.1.1.1"], [], []),
            [],
            id="DNS-2 None",
        ),
        pytest.param(
            {
                "dnsPolicy": "Default",
                "dnsConfig": {
                    "nameservers": ["10.0.0.2", "9.9.9.9"],
                    "searches": ["lan", "x"],
                    "options": [{"name": "ndots", "value": "3"}, {"name": "rotate"}],
                },
            },
            {},
            (["10.0.0.1", "10.0.0.2", "9.9.9.9"], ["home.arpa", "lan", "x"], ["ndots:3", "edns0", "rotate"]),
            [],
            id="DNS-4 dnsConfig is merged",
        ),
        pytest.param(
            {"dnsPolicy": "Default", "dnsConfig": {"nameservers": ["3.3.3.3", "4.4.4.4"]}},
            {},
            (["10.0.0.1", "10.0.0.2", "3.3.3.3"], HOST[1], HOST[2]),
            ["DNSConfigForming"],
            id="DNS-5 three servers",
        ),
        pytest.param(
            {"dnsPolicy": "Default", "dnsConfig": {"searches": [f"s{i}" for i in range(40)]}},
            {},
            (HOST[0], ["home.arpa", "lan", *(f"s{i}" for i in range(30))], HOST[2]),
            ["DNSConfigForming"],
            id="DNS-5 32 searches",
        ),
        pytest.param(
            {"dnsPolicy": "Default", "dnsConfig": {"searches": ["a" * 254, "b"]}},
            {},
            (HOST[0], ["home.arpa", "lan", "b"], HOST[2]),
            ["DNSConfigForming"],
            id="DNS-5 a search over 253",
        ),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"searches": [f"{i}" + "a" * 249 for i in range(9)]}},
            {},
            ([], [f"{i}" + "a" * 249 for i in range(8)], []),
            ["DNSConfigForming"],
            id="DNS-5 2048 characters",
        ),
    ],
)
def test_dns(
    spec: dict[str, Any],
    given: dict[str, Any],
    expected: tuple[list[str], list[str], list[str]],
    reasons: list[str],
) -> None:
    dns, warned = dns_config(pod(**spec), node(**given), resolv_conf=RESOLV)
    assert (list(dns.servers), list(dns.searches), list(dns.options)) == expected
    assert [event.reason for event in warned] == reasons


def test_dns_2_the_warning_says_which_pod() -> None:
    _, warned = dns_config(pod(), NODE, resolv_conf=RESOLV)
    assert warned[0].message == (
        'pod: "web_default(u-1)". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
        '"ClusterFirst" policy. Falling back to "Default" policy.'
    )


def test_dns_5_the_warning_says_what_is_applied() -> None:
    of = pod(dnsPolicy="None", dnsConfig={"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]})
    _, warned = dns_config(of, NODE, resolv_conf="")
    assert warned[0].message == (
        "Nameserver limits were exceeded, some nameservers have been omitted, "
        "the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3"
    )


@pytest.mark.parametrize(("ip", "server"), [("10.0.0.1", "127.0.0.1"), ("fd00::1", "::1")])
def test_dns_3_without_a_resolv_conf_the_node_itself_is_asked(ip: str, server: str) -> None:
    dns, _ = dns_config(pod(dnsPolicy="Default"), node(node_ip=ip), resolv_conf=None)
    assert (list(dns.servers), list(dns.searches)) == ([server], ["."])


def test_dns_1_a_nameserver_line_without_an_address_makes_no_sandbox() -> None:
    with pytest.raises(DNSError) as caught:
        sandbox_config(pod(), NODE, attempt=0, resolv_conf="nameserver\n")
    assert str(caught.value) == "Encountered error while parsing resolv conf file. Error: nameserver list is empty "


def test_mt_5_hosts_file_of_a_pod_with_two_addresses_a_domain_and_aliases() -> None:
    of = pod(subdomain="s", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["foo", "bar"]}, {"ip": "5.6.7.8"}])
    text = hosts_file(of, node(cluster_domain="cl"), pod_ips=("10.0.0.2", "fd00::2"), node_hosts="")
    assert text == (
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n"
        "10.0.0.2\tweb.s.default.svc.cl\tweb\n"
        "fd00::2\tweb.s.default.svc.cl\tweb\n"
        "\n"
        "# Entries added by HostAliases.\n"
        "1.2.3.4\tfoo\tbar\n"
        "5.6.7.8\n"
    )


def test_mt_5_without_a_domain_only_the_short_name() -> None:
    assert hosts_file(pod(), NODE, pod_ips=("10.0.0.2",), node_hosts="").endswith("ip6-allrouters\n10.0.0.2\tweb\n")


def test_mt_5_on_the_host_network_the_nodes_own_file_is_kept() -> None:
    text = hosts_file(pod(hostNetwork=True), NODE, pod_ips=(), node_hosts="127.0.0.1 localhost\n")
    assert text == "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"


def test_paths_follow_the_configured_folders() -> None:
    moved = node(log_dir=Path("/logs"))
    assert log_directory(pod(), moved) == "/logs/default_web_u-1"
