"""Where the values of environment variables come from, one row per rule (EV-1 to EV-9)."""

from __future__ import annotations

import base64
from fractions import Fraction
from typing import Any

import pytest

from minikubelet.api.configuration import ConfigMap, Secret
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.objects import CONFIG_MAP, SECRET, Objects, Ref, refs_of
from minikubelet.api.pod import Container, Pod
from minikubelet.runtime.capacity import NodeResources
from minikubelet.runtime.mapping import Environment, EnvironmentSourceError, container_environment
from tests.unit.runtime.build import container, node, pod

ALLOCATABLE = {"cpu": Fraction(7, 2), "memory": Fraction(1000), "ephemeral-storage": Fraction(5000)}


def config_map(name: str, **data: str) -> ConfigMap:
    binary = {"binary": base64.b64encode(b"x").decode()}
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data, binary_data=binary)


def secret(name: str, **data: bytes) -> Secret:
    texts = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return Secret(metadata=ObjectMeta(name=name, namespace="default"), data=texts)


OBJECTS = Objects(
    config_maps={
        ("default", "c"): config_map("c", b="from c", a="$(b)", empty=""),
        ("default", "c2"): config_map("c2", b="from c2"),
        ("other", "far"): config_map("far", a="1"),
    },
    secrets={("default", "s"): secret("s", password=b"hunter2", b=b"from s", raw=b"\xff", nul=b"a\0b")},
)


def environment(
    of: Container, *, within: Pod | None = None, pod_ips: tuple[str, ...] = ("10.0.0.7", "fd00::7"), **facts: Any
) -> Environment:
    at = node(resources=NodeResources(allocatable=ALLOCATABLE), **facts)
    return container_environment(within or pod(of), of, at, objects=OBJECTS, pod_ips=pod_ips)


def variables(of: Container, **context: Any) -> list[tuple[str, str]]:
    return list(environment(of, **context).variables.items())


def value_of(source: dict[str, Any], **context: Any) -> str | None:
    return environment(container(env=[{"name": "X", "valueFrom": source}]), **context).variables.get("X")


def failure(of: Container) -> str:
    with pytest.raises(EnvironmentSourceError) as caught:
        environment(of)
    return str(caught.value)


# ---- envFrom -----------------------------------------------------------------------
def test_ev_1_every_text_of_a_config_map_and_every_value_of_a_secret_with_a_prefix() -> None:
    of = container(envFrom=[{"configMapRef": {"name": "c"}}, {"prefix": "S_", "configMapRef": {"name": "c2"}}])
    assert variables(of) == [("a", "$(b)"), ("b", "from c"), ("empty", ""), ("S_b", "from c2")]


def test_ev_1_a_later_source_wins_and_ev_9_the_key_keeps_its_first_place() -> None:  # D-2
    of = container(envFrom=[{"configMapRef": {"name": "c"}}, {"configMapRef": {"name": "c2"}}])
    assert variables(of) == [("a", "$(b)"), ("b", "from c2"), ("empty", "")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapRef": {"name": "no"}}, 'configmap "no" not found'),
        ({"configMapRef": {"name": "far"}}, 'configmap "far" not found'),
        ({"secretRef": {"name": "no"}}, 'secret "no" not found'),
    ],
)
def test_ev_1_a_missing_object_unless_it_is_optional(source: dict[str, Any], message: str) -> None:
    assert failure(container(envFrom=[source])) == message
    ((kind, reference),) = source.items()
    assert variables(container(envFrom=[{kind: {**reference, "optional": True}}])) == []


# ---- env ---------------------------------------------------------------------------
def test_ev_2_values_expand_with_env_from_and_what_stands_before_them_and_nothing_else_expands() -> None:
    of = container(
        envFrom=[{"configMapRef": {"name": "c"}}],
        env=[
            {"name": "A", "value": "$(b)-$(LATER)-$$(b)"},
            {"name": "REF", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}},
            {"name": "LATER", "value": "$(A)"},
            {"name": "b", "value": "$(b)!"},
            {"name": "NONE"},
        ],
    )
    assert variables(of) == [
        ("a", "$(b)"),
        ("b", "from c!"),
        ("empty", ""),
        ("A", "from c-$(LATER)-$(b)"),
        ("REF", "$(b)"),
        ("LATER", "from c-$(LATER)-$(b)"),
        ("NONE", ""),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "b"}}, "from c"),
        ({"configMapKeyRef": {"name": "c", "key": "empty"}}, ""),
        ({"secretKeyRef": {"name": "s", "key": "password"}}, "hunter2"),
        ({"configMapKeyRef": {"name": "c", "key": "no", "optional": True}}, None),
        ({"configMapKeyRef": {"name": "no", "key": "b", "optional": True}}, None),
        ({"secretKeyRef": {"name": "s", "key": "no", "optional": True}}, None),
        ({"secretKeyRef": {"name": "no", "key": "no", "optional": True}}, None),
    ],
)
def test_ev_3_a_key_of_an_object(source: dict[str, Any], expected: str | None) -> None:
    assert value_of(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "no"}}, "couldn't find key no in ConfigMap default/c"),
        ({"configMapKeyRef": {"name": "c", "key": "binary"}}, "couldn't find key binary in ConfigMap default/c"),
        ({"secretKeyRef": {"name": "s", "key": "no"}}, "couldn't find key no in Secret default/s"),
        ({"configMapKeyRef": {"name": "no", "key": "b"}}, 'configmap "no" not found'),
        ({"secretKeyRef": {"name": "no", "key": "b"}}, 'secret "no" not found'),
        ({"configMapKeyRef": {"name": "no", "key": "b", "optional": False}}, 'configmap "no" not found'),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "no"}}, "container no not found"),
    ],
)
def test_ev_3_what_is_missing_is_named_in_the_references_words(source: dict[str, Any], message: str) -> None:
    assert failure(container(env=[{"name": "X", "valueFrom": source}])) == message


def test_ev_3_what_is_optional_and_missing_leaves_an_earlier_value_alone() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "no", "optional": True}}
    of = container(envFrom=[{"configMapRef": {"name": "c2"}}], env=[{"name": "b", "valueFrom": source}])
    assert variables(of) == [("b", "from c2")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param({"secretKeyRef": {"name": "s", "key": "raw"}}, "is not UTF-8 text", id="binary"),
        pytest.param({"secretKeyRef": {"name": "s", "key": "nul"}}, "has a NUL character in it", id="NUL"),
    ],
)
def test_what_no_variable_can_hold_is_told_without_the_value(source: dict[str, Any], message: str) -> None:
    assert message in failure(container(env=[{"name": "X", "valueFrom": source}]))


# ---- the downward API ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.io/x']", "label"),
        ("metadata.labels['no']", ""),
        ("metadata.annotations['note']", "an ['odd'] one"),
        ("spec.nodeName", "node1"),
        ("spec.serviceAccountName", ""),
        ("status.hostIP", "192.168.1.10"),
        ("status.hostIPs", "192.168.1.10"),
        ("status.podIP", "10.0.0.7"),
        ("status.podIPs", "10.0.0.7,fd00::7"),
    ],
)
def test_ev_4_fields(path: str, expected: str) -> None:
    metadata = {"labels": {"app.io/x": "label"}, "annotations": {"note": "an ['odd'] one"}}
    within = pod(metadata=metadata, nodeName="node1")
    assert value_of({"fieldRef": {"fieldPath": path}}, within=within) == expected


def test_ev_4_on_the_hosts_network_the_pods_address_is_the_nodes() -> None:  # D-11
    within = pod(hostNetwork=True)
    assert value_of({"fieldRef": {"fieldPath": "status.podIP"}}, within=within, pod_ips=()) == "192.168.1.10"
    assert value_of({"fieldRef": {"fieldPath": "status.podIP"}}, within=within, node_ip="") == ""


LIMITED = {
    "limits": {"cpu": "200m", "memory": "64Mi", "ephemeral-storage": "1500", "hugepages-2Mi": "4Mi"},
    "requests": {"cpu": "100m", "memory": "1Ki"},
}


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "0", "1"),
        ("limits.cpu", "1", "1"),
        ("limits.cpu", "1m", "200"),
        ("requests.cpu", "1m", "100"),
        ("limits.memory", "1Mi", "64"),
        ("limits.memory", "1", "67108864"),
        ("limits.memory", "1G", "1"),
        ("requests.memory", "1k", "2"),
        ("limits.ephemeral-storage", "1k", "2"),
        ("limits.hugepages-2Mi", "1Mi", "4"),
        ("requests.hugepages-2Mi", "1Mi", "0"),
        ("requests.ephemeral-storage", "0", "0"),
    ],
)
def test_ev_5_resources_in_units_of_the_divisor_rounded_up(resource: str, divisor: str, expected: str) -> None:
    of = container(
        limits=LIMITED["limits"],
        requests=LIMITED["requests"],
        env=[{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}}],
    )
    assert variables(of) == [("X", expected)]


def _resource(resource: str, of: str = "") -> dict[str, Any]:
    return {
        "resourceFieldRef": {"resource": resource, "containerName": of, "divisor": "1m" if "cpu" in resource else "1"}
    }


@pytest.mark.parametrize(
    ("resource", "named", "expected"),
    [
        pytest.param("limits.cpu", "", "3500", id="EV-6 own container"),
        pytest.param("limits.memory", "", "1000", id="EV-6 memory"),
        pytest.param("limits.ephemeral-storage", "", "5000", id="EV-6 storage"),
        pytest.param("requests.cpu", "", "0", id="EV-6 requests are never substituted"),
        pytest.param("limits.hugepages-2Mi", "", "0", id="EV-6 huge pages neither"),
        pytest.param("limits.cpu", "main", "3500", id="EV-6 a regular container that is named"),
        pytest.param("limits.cpu", "side", "0", id="EV-6 a sidecar that is named"),
    ],
)
def test_ev_6_the_nodes_size_stands_in_for_an_absent_limit(resource: str, named: str, expected: str) -> None:
    of = container(env=[{"name": "X", "valueFrom": _resource(resource, named)}])
    within = pod(of, init=(container("side", restartPolicy="Always"),))
    assert variables(of, within=within) == [("X", expected)]


def test_ev_6_also_in_an_init_container_and_for_a_limit_of_zero() -> None:
    of = container("first", limits={"cpu": "0"}, env=[{"name": "X", "valueFrom": _resource("limits.cpu")}])
    assert variables(of, within=pod(init=(of,))) == [("X", "3500")]


def test_ev_8_nothing_is_added_that_the_manifest_does_not_name() -> None:
    assert variables(container()) == []


# ---- secrets stay secret ------------------------------------------------------------
def test_the_environment_shows_no_values_and_conceals_secrets_in_what_others_say() -> None:
    of = container(
        env=[
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            {"name": "PLAIN", "value": "plain"},
        ]
    )
    found = environment(of)
    assert repr(found) == "Environment(PASSWORD, PLAIN)"
    assert found.conceal('exec: "hunter2": not found, plain') == 'exec: "<secret>": not found, plain'


def test_what_a_pod_refers_to_is_found_in_all_places() -> None:
    side = container(
        "side", envFrom=[{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1", "optional": True}}]
    )
    main = container(
        env=[
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
    )
    volumes = [
        {"name": "a", "configMap": {"name": "c3"}},
        {"name": "b", "secret": {"secretName": "s3"}},
        {"name": "c", "projected": {"sources": [{"configMap": {"name": "c4"}}, {"secret": {"name": "s4"}}]}},
        {"name": "d", "emptyDir": {}},
    ]
    config_maps = {Ref(CONFIG_MAP, "default", f"c{number}") for number in (1, 2, 3, 4)}
    secrets = {Ref(SECRET, "default", f"s{number}") for number in (1, 2, 3, 4)}
    assert refs_of(pod(main, init=(side,), volumes=volumes)) == config_maps | secrets
