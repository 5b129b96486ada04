"""Attribute names give Kubernetes' JSON names, and no field of the Pod API is missing."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minikubelet.api.base import Object, kubernetes_name
from minikubelet.api.pod import Pod
from minikubelet.api.status import PodStatus
from minikubelet.api.support import Level, matrix, structs_in


def read_expected() -> dict[str, set[str]]:
    lines = (Path(__file__).parent / "api_fields.txt").read_text().splitlines()
    rows = (line.split(": ") for line in lines if not line.startswith("#"))
    return {name: set(fields.split()) for name, fields in rows}


def structs_below(cls: type[Object], seen: set[type[Object]]) -> Iterator[type[Object]]:
    if cls in seen:
        return
    seen.add(cls)
    yield cls
    for field in msgspec.structs.fields(cls):
        for child, _ in structs_in(field.type):
            yield from structs_below(child, seen)


EXPECTED = read_expected()
STRUCTS = {cls.__name__: cls for cls in structs_below(Pod, set()) if cls.__module__ != PodStatus.__module__}


def test_every_struct_of_the_pod_api_is_there_and_no_other() -> None:
    assert set(STRUCTS) == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_struct_has_exactly_the_json_names_of_kubernetes(name: str) -> None:
    cls = STRUCTS[name]
    tag_field = cls.__struct_config__.tag_field
    assert set(cls.__struct_encode_fields__) | ({tag_field} if tag_field else set()) == EXPECTED[name]


@pytest.mark.parametrize(
    ("attribute", "json_name"),
    [
        ("name", "name"),
        ("host_ip", "hostIP"),
        ("pod_ips", "podIPs"),
        ("container_id", "containerID"),
        ("dns_policy", "dnsPolicy"),
        ("host_pid", "hostPID"),
        ("host_ipc", "hostIPC"),
        ("set_hostname_as_fqdn", "setHostnameAsFQDN"),
        ("tcp_socket", "tcpSocket"),
        ("fs_group_change_policy", "fsGroupChangePolicy"),
        ("qos_class", "qosClass"),
    ],
)
def test_json_names_follow_kubernetes_capitals(attribute: str, json_name: str) -> None:
    assert kubernetes_name(attribute) == json_name


def test_the_support_matrix_names_fields_at_every_depth() -> None:
    rows = {row.path: row.mark for row in matrix(Pod)}
    assert rows["spec.containers[].livenessProbe.httpGet.port"].level is Level.SUPPORTED
    assert rows["spec.schedulerName"].level is Level.ACCEPTED
    assert rows["spec.volumes[].nfs"].level is Level.REFUSED
    assert "spec.volumes[].nfs.server" not in rows, "what is refused as a whole is one row"


def test_every_mark_gives_its_reason() -> None:
    assert [row.path for row in matrix(Pod) if row.mark.level is not Level.SUPPORTED and not row.mark.reason] == []
