"""Ports, names and resolvers of pods (PM-1 to PM-3, HN-1 to HN-6, DNS-1 to DNS-5, MT-4, MT-5)."""

from __future__ import annotations

import functools
import http.client
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spec.conftest import FOREVER, Lab, sh

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

SERVE = "mkdir /w; echo fine >/w/index.html; httpd -p 8080 -h /w; " + FOREVER


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(address: str, port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}:{port}/", timeout=2) as answer:
            return str(answer.read().decode().strip())
    except (OSError, http.client.HTTPException):
        return ""


@pytest.mark.parametrize("sidecar", [False, True])
def test_host_ports_are_mapped_also_those_of_sidecars(lab: Lab, *, sidecar: bool) -> None:
    """PM-1, and ours: a proxy sidecar is reached from outside."""
    port = free_port()
    server = sh(SERVE, name="server", ports=[{"containerPort": 8080, "hostPort": port}])
    spec: dict[str, Any] = {"containers": [server]}
    if sidecar:
        spec = {"initContainers": [{**server, "restartPolicy": "Always"}], "containers": [sh(FOREVER)]}
    pod = lab.comes_to(lab.put(**spec), "Running")
    for address in ("127.0.0.1", pod["status"]["hostIP"]):
        assert lab.until(f"{address}:{port} answers", functools.partial(fetch, address, port)) == "fine"


def test_a_host_port_of_one_address_is_not_mapped_on_another(lab: Lab) -> None:
    port = free_port()
    ports = [{"containerPort": 8080, "hostPort": port, "hostIP": "127.0.0.1"}]
    pod = lab.comes_to(lab.put(containers=[sh(SERVE, ports=ports)]), "Running")
    assert lab.until("it answers", lambda: fetch("127.0.0.1", port)) == "fine"
    assert fetch(pod["status"]["hostIP"], port) == ""


def test_on_the_hosts_network_a_pod_has_the_hosts_address_name_and_file(lab: Lab) -> None:
    """HN-1, MT-5, README 10."""
    name = lab.put(containers=[sh("hostname; cat /etc/hosts; " + FOREVER)], hostNetwork=True)
    status = lab.comes_to(name, "Running")["status"]
    assert status["podIP"] == status["hostIP"]
    printed = lab.until("it has printed", lambda: lab.printed(name))
    first, *hosts = printed.splitlines()
    assert first == socket.gethostname()
    assert hosts[0] == "# Kubernetes-managed hosts file (host network)."
    assert hosts[1:] == Path("/etc/hosts").read_text().splitlines()


LOOK = "hostname; cat /etc/hosts"


@pytest.mark.parametrize(
    ("spec", "hostname", "names"),
    [
        pytest.param({}, "{pod}", "{pod}", id="HN-3 the pod's name"),
        pytest.param({"hostname": "db"}, "db", "db", id="HN-3 hostname"),
        pytest.param(
            {"hostname": "db", "subdomain": "svc"}, "db", "db.svc.default.svc.cluster.local\tdb", id="HN-5 subdomain"
        ),
        pytest.param(
            {"hostname": "db", "subdomain": "s", "setHostnameAsFQDN": True},
            "db.s.default.svc.cluster.local",
            "db.s.default.svc.cluster.local\tdb",
            id="HN-6 setHostnameAsFQDN",
        ),
        pytest.param({"hostnameOverride": "box.example"}, "box.example", "box.example", id="HN-2 hostnameOverride"),
    ],
)
def test_host_names(lab: Lab, spec: dict[str, Any], hostname: str, names: str) -> None:
    printed = lab.says(LOOK, spec=spec).splitlines()
    pod = next(p for p in lab.node.get("/pods")["items"])
    name = pod["metadata"]["name"]
    assert printed[0] == hostname.format(pod=name)
    assert f"{pod['status']['podIP']}\t{names.format(pod=name)}" in printed


def test_mt_5_aliases_are_added_at_the_end(lab: Lab) -> None:
    aliases = [{"ip": "10.1.2.3", "hostnames": ["a", "b.example"]}, {"ip": "10.1.2.4", "hostnames": ["c"]}]
    printed = lab.says("cat /etc/hosts", spec={"hostAliases": aliases})
    assert printed.endswith("\n\n# Entries added by HostAliases.\n10.1.2.3\ta\tb.example\n10.1.2.4\tc")


NDOTS = {"name": "ndots", "value": "2"}
RESOLVER = "cat /etc/resolv.conf"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"], "searches": ["a.example"]}},
            ["search a.example", "nameserver 9.9.9.9"],
            id="DNS-2 None",
        ),
        pytest.param(
            {
                "dnsPolicy": "None",
                "dnsConfig": {
                    "nameservers": ["9.9.9.9"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}],
                },
            },
            ["nameserver 9.9.9.9", "options ndots:2 rotate"],
            id="DNS-4 options",
        ),
    ],
)
def test_a_resolver_of_the_pods_own(lab: Lab, spec: dict[str, Any], expected: list[str]) -> None:
    assert lab.says(RESOLVER, spec=spec).splitlines() == expected


def test_dns_2_the_clusters_servers_and_domains_come_first(lab: Lab) -> None:
    printed = lab.says(RESOLVER, spec={"dnsPolicy": "ClusterFirst"}).splitlines()
    assert printed[0].startswith("search default.svc.cluster.local svc.cluster.local cluster.local")
    assert printed[1:] == ["nameserver 10.96.0.10", "options ndots:5"]


def test_dns_4_servers_of_the_pods_own_come_after_and_each_once(lab: Lab) -> None:
    own = {"nameservers": ["9.9.9.1", "10.96.0.10", "9.9.9.2"]}
    printed = lab.says(RESOLVER, spec={"dnsPolicy": "ClusterFirst", "dnsConfig": own})
    assert servers(printed.splitlines()) == ["10.96.0.10", "9.9.9.1", "9.9.9.2"]


HOSTS_OWN = """# nameserver 1.1.1.1
domain ignored.example
nameserver 10.1.1.1 and more
nameserver 10.1.1.2
search first.example
search last.example. . other.example
options ndots:3 rotate
options ndots:4
"""


def test_dns_1_and_dns_5_what_the_hosts_file_says(resolver_lab: Lab) -> None:
    lab = resolver_lab
    file = lab.node.base / "resolv.conf"
    file.write_text(HOSTS_OWN)
    assert lab.says(RESOLVER).splitlines() == [
        "search last.example other.example",
        "nameserver 10.1.1.1",
        "nameserver 10.1.1.2",
        "options ndots:4 rotate",
    ]
    file.write_text("".join(f"nameserver 10.1.1.{number}\n" for number in range(1, 5)))  # read anew for each pod
    name = lab.put(containers=[sh(RESOLVER)])
    lab.comes_to(name, "Succeeded")
    assert servers(lab.printed(name).splitlines()) == ["10.1.1.1", "10.1.1.2", "10.1.1.3"]
    assert lab.event(name, "DNSConfigForming") == (
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
        "10.1.1.1 10.1.1.2 10.1.1.3"
    )
    file.write_text("nameserver\n")
    name = lab.put(containers=[sh(RESOLVER)])
    text = "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
    assert lab.event(name, "FailedCreatePodSandBox") == f"Failed to create pod sandbox: {text}"


@pytest.mark.parametrize("policy", ["ClusterFirst", "Default"])
def test_dns_2_on_the_hosts_network_the_hosts_servers_are_used(lab: Lab, policy: str) -> None:
    printed = lab.says(RESOLVER, spec={"dnsPolicy": policy, "hostNetwork": True}).splitlines()
    hosts = [
        line.split()[1] for line in Path("/etc/resolv.conf").read_text().splitlines() if line.startswith("nameserver")
    ]
    assert [line.split()[1] for line in printed if line.startswith("nameserver")] == hosts[:3]


def servers(lines: list[str]) -> list[str]:
    return [line.split()[1] for line in lines if line.startswith("nameserver")]
