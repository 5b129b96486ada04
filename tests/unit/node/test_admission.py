"""Whether a pod may run on the node beside those that do (AD-1 to AD-7)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from minikubelet.api.pod import Container, Pod
from minikubelet.node.admission import NeedsBook, Node, admit, needs_of
from minikubelet.node.sysctls import allowed_sysctls
from minikubelet.pods.admission import Refusal
from tests.unit.runtime.build import container, pod

GIB = 2**30
NODE = Node(
    name="edge-1",
    labels={"kubernetes.io/os": "linux", "disk": "ssd"},
    allocatable={"cpu": Fraction(2), "memory": Fraction(4 * GIB), "ephemeral-storage": Fraction(10 * GIB)},
    max_pods=3,
    sysctls=allowed_sysctls(["net.core.*"], kernel=(6, 1)),
    app_armor=False,
    strict_groups=False,
    runtime_classes=frozenset({"gvisor"}),
)


def asking(**requests: str) -> Pod:
    return pod(container(requests={name.replace("_", "-"): amount for name, amount in requests.items()}))


def with_ports(*ports: dict[str, Any], sidecar: bool = False, **spec: Any) -> Pod:
    of = container("c", ports=list(ports), restartPolicy="Always" if sidecar else None)
    return pod(init=(of,), **spec) if sidecar else pod(of, **spec)


def out_of(name: str, requested: int, used: int, capacity: int, *, passing: bool) -> Refusal:
    amounts = f"{name}, requested: {requested}, used: {used}, capacity: {capacity}"
    message = f"Node didn't have enough resource: {amounts}"
    return Refusal(reason=f"OutOf{name}", message=message, passing=passing)


@pytest.mark.parametrize(
    ("of", "active", "expected"),
    [
        pytest.param(pod(), [], None, id="AD-4 a pod that asks for nothing"),
        pytest.param(pod(), [asking(cpu="2")], None, id="AD-4 also on a full node"),
        pytest.param(asking(cpu="500m"), [asking(cpu="1500m")], None, id="AD-4 just fits"),
        pytest.param(
            asking(cpu="501m"), [asking(cpu="1500m")], out_of("cpu", 501, 1500, 2000, passing=True), id="AD-3 OutOfcpu"
        ),
        pytest.param(
            asking(memory="3Gi"),
            [asking(memory="1Gi"), asking(memory="1Gi")],
            out_of("memory", 3 * GIB, 2 * GIB, 4 * GIB, passing=True),
            id="AD-3 OutOfmemory",
        ),
        pytest.param(
            asking(ephemeral_storage="11Gi"),
            [],
            out_of("ephemeral-storage", 11 * GIB, 0, 10 * GIB, passing=False),
            id="AD-3 OutOfephemeral-storage; it would never fit",
        ),
        pytest.param(pod(), [pod(), pod(), pod()], out_of("pods", 1, 3, 3, passing=True), id="AD-3 OutOfpods"),
        pytest.param(
            asking(cpu="3", memory="9Gi"), [], out_of("cpu", 3000, 0, 2000, passing=False), id="AD-1 cpu before memory"
        ),
        pytest.param(
            pod(container(requests={"cpu": "1", "hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "2Mi"})),
            [],
            out_of("hugepages-2Mi", 2 * 2**20, 0, 0, passing=False),
            id="AD-3 OutOf<name> of what the node has none",
        ),
        pytest.param(
            pod(
                container(requests={"cpu": "100m"}),
                init=(
                    container("side", requests={"cpu": "1"}, restartPolicy="Always"),
                    container("init", requests={"cpu": "1100m"}),
                ),
            ),
            [],
            out_of("cpu", 2100, 0, 2000, passing=False),
            id="AD-4 sidecars count as the pod's formula has it",
        ),
        pytest.param(
            pod(container(requests={"cpu": "1"}), overhead={"cpu": "1001m"}),
            [],
            out_of("cpu", 2001, 0, 2000, passing=False),
            id="AD-4 overhead counts",
        ),
    ],
)
def test_room(of: Pod, active: list[Pod], expected: Refusal | None) -> None:
    assert admit(of, active, NODE) == expected


TCP = {"containerPort": 80, "hostPort": 8080}


@pytest.mark.parametrize(
    ("of", "other", "free"),
    [
        pytest.param(with_ports(TCP), with_ports(TCP), False, id="AD-5 the same port"),
        pytest.param(with_ports(TCP), with_ports({**TCP, "hostPort": 8081}), True, id="AD-5 another port"),
        pytest.param(with_ports(TCP), with_ports({**TCP, "protocol": "UDP"}), True, id="AD-5 another protocol"),
        pytest.param(
            with_ports({**TCP, "hostIP": "10.0.0.1"}),
            with_ports({**TCP, "hostIP": "10.0.0.2"}),
            True,
            id="AD-5 another address",
        ),
        pytest.param(with_ports({**TCP, "hostIP": "10.0.0.1"}), with_ports(TCP), False, id="AD-5 any address"),
        pytest.param(
            with_ports({**TCP, "hostIP": "0.0.0.0"}),  # noqa: S104
            with_ports({**TCP, "hostIP": "10.0.0.2"}),
            False,
            id="AD-5 0.0.0.0 is any address",
        ),
        pytest.param(with_ports(TCP, sidecar=True), with_ports(TCP), False, id="AD-5 a sidecar's port"),
        pytest.param(with_ports(TCP), with_ports(TCP, sidecar=True), False, id="AD-5 against a sidecar's port"),
        pytest.param(
            with_ports({"containerPort": 80, "hostPort": 80}, hostNetwork=True),
            with_ports({"containerPort": 9, "hostPort": 80}),
            False,
            id="AD-5 on the host's network",
        ),
        pytest.param(
            with_ports({"containerPort": 80}), with_ports({"containerPort": 80}), True, id="AD-5 no host port"
        ),
    ],
)
def test_host_ports(of: Pod, other: Pod, *, free: bool) -> None:
    message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    refusal = Refusal(reason="NodePorts", message=message, passing=True)
    assert admit(of, [other], NODE) == (None if free else refusal)


def test_ad_5_a_plain_init_containers_host_port_is_not_mapped_and_does_not_count() -> None:
    init = pod(init=(container("i", ports=[TCP]),))
    assert admit(init, [with_ports(TCP)], NODE) is None


PROFILE = {"appArmorProfile": {"type": "RuntimeDefault"}}
NO_APP_ARMOR = Refusal(reason="AppArmor", message="Cannot enforce AppArmor: AppArmor is not enabled on the host")
KEY = "container.apparmor.security.beta.kubernetes.io/main"


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(securityContext=PROFILE), NO_APP_ARMOR, id="AD-3 the pod's"),
        pytest.param(pod(container(securityContext=PROFILE)), NO_APP_ARMOR, id="AD-3 a container's"),
        pytest.param(pod(init=(container("i", securityContext=PROFILE),)), NO_APP_ARMOR, id="AD-3 an init container's"),
        pytest.param(pod(metadata={"annotations": {KEY: "localhost/x"}}), NO_APP_ARMOR, id="AD-3 an annotation"),
        pytest.param(pod(metadata={"annotations": {KEY: "unconfined"}}), None, id="AD-3 none is none"),
        pytest.param(pod(securityContext={"appArmorProfile": {"type": "Unconfined"}}), None, id="AD-3 Unconfined"),
    ],
)
def test_app_armor(of: Pod, expected: Refusal | None) -> None:
    assert admit(of, [], NODE) == expected


def _sysctl(name: str, **spec: Any) -> Pod:
    return pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(_sysctl("kernel.shm_rmid_forced"), None, id="AD-7 a safe one"),
        pytest.param(_sysctl("net/ipv4/tcp_rmem"), None, id="AD-7 written with slashes"),
        pytest.param(_sysctl("net.core.somaxconn"), None, id="AD-7 allowed by its beginning"),
        pytest.param(_sysctl("net.ipv4.tcp_mem"), '"net.ipv4.tcp_mem" not allowlisted', id="AD-7 an unsafe one"),
        pytest.param(_sysctl("vm/swappiness"), '"vm.swappiness" not allowlisted', id="AD-7 one of the whole host"),
        pytest.param(
            _sysctl("net.core.somaxconn", hostNetwork=True),
            '"net.core.somaxconn" not allowed with host Net enabled',
            id="AD-3 hostNetwork",
        ),
        pytest.param(
            _sysctl("kernel.shm_rmid_forced", hostIPC=True),
            '"kernel.shm_rmid_forced" not allowed with host IPC enabled',
            id="AD-3 hostIPC",
        ),
    ],
)
def test_sysctls(of: Pod, why: str | None) -> None:
    expected = None if why is None else Refusal(reason="SysctlForbidden", message=f"forbidden sysctl: {why}")
    assert admit(of, [], NODE) == expected


@pytest.mark.parametrize(
    ("kernel", "name", "safe"),
    [
        ((6, 1), "net.ipv4.tcp_wmem", True),
        ((4, 14), "net.ipv4.tcp_wmem", False),
        ((4, 15), "net.ipv4.tcp_wmem", True),
        ((3, 10), "net.ipv4.ip_local_reserved_ports", False),
        ((0, 0), "net.ipv4.tcp_syncookies", True),
    ],
)
def test_ad_7_what_is_safe_depends_on_the_kernel(kernel: tuple[int, int], name: str, *, safe: bool) -> None:
    assert (name in allowed_sysctls([], kernel=kernel)) is safe


STRICT = {"supplementalGroupsPolicy": "Strict"}


@pytest.mark.parametrize(
    ("of", "reason", "message"),
    [
        pytest.param(
            pod(metadata={"labels": {"kubernetes.io/os": "windows"}}),
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            id="AD-3 the OS label",
        ),
        pytest.param(
            pod(securityContext=STRICT),
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
            id="AD-3 supplementalGroupsPolicy",
        ),
        pytest.param(
            pod(nodeSelector={"disk": "hdd"}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            id="AD-3 nodeSelector",
        ),
        pytest.param(
            pod(runtimeClassName="kata"),
            "RuntimeClassNotFound",
            'RuntimeClass "kata" not found; runtimeClasses in the configuration names: gvisor',
            id="D-9 an unknown runtime class",
        ),
    ],
)
def test_what_never_fits_here(of: Pod, reason: str, message: str) -> None:
    assert admit(of, [], NODE) == Refusal(reason=reason, message=message)


@pytest.mark.parametrize(
    "of",
    [
        pod(metadata={"labels": {"kubernetes.io/os": "linux"}}),
        pod(nodeSelector={"disk": "ssd"}),
        pod(runtimeClassName="gvisor"),
        pod(securityContext={"supplementalGroupsPolicy": "Merge"}),
    ],
)
def test_what_fits(of: Pod) -> None:
    assert admit(of, [], NODE) is None


def _wrong_in_every_way() -> list[tuple[str, dict[str, Any]]]:
    """Reasons in the order of AD-1, and what gives rise to each."""
    return [
        ("SysctlForbidden", {"securityContext": {"sysctls": [{"name": "vm.x", "value": "1"}]}}),
        ("PodOSSelectorNodeLabelDoesNotMatch", {"metadata": {"labels": {"kubernetes.io/os": "bsd"}}}),
        ("SupplementalGroupsPolicyNotSupported", {"securityContext": STRICT}),
        ("OutOfcpu", {"resources": {"requests": {"cpu": "9"}}}),
        ("NodeAffinity", {"nodeSelector": {"disk": "hdd"}}),
        ("NodePorts", {}),  # its ports are always taken
        ("AppArmor", {"securityContext": PROFILE}),
        ("RuntimeClassNotFound", {"runtimeClassName": "kata"}),
    ]


def test_ad_1_only_the_first_is_told_in_the_kubelets_order() -> None:
    wrongs, found = _wrong_in_every_way(), []
    for first in range(len(wrongs)):
        spec: dict[str, Any] = {}
        for _, wrong in wrongs[first:]:
            context = {**spec.get("securityContext", {}), **wrong.get("securityContext", {})}
            spec |= {**wrong, "securityContext": context}
        ports = [TCP] if first <= 5 else []
        of: Container = container(ports=ports)
        refusal = admit(pod(of, **spec), [with_ports(TCP)], NODE)
        found.append(refusal.reason if refusal else None)
    assert found == [reason for reason, _ in wrongs]


def test_pods_that_wait_for_room_are_those_for_which_some_may_appear() -> None:
    full = [asking(cpu="2")]
    assert admit(asking(cpu="2"), full, NODE) == out_of("cpu", 2000, 2000, 2000, passing=True)
    assert admit(asking(cpu="2001m"), full, NODE) == out_of("cpu", 2001, 2000, 2000, passing=False)


def test_needs_are_worked_out_anew_when_the_pod_has_changed() -> None:
    book, first, second = NeedsBook(), asking(cpu="1"), asking(cpu="2")  # of one uid
    assert book(first) == needs_of(first) == {"cpu": 1}
    assert book(first) is book(first)
    assert book(second) == {"cpu": 2}


def test_what_is_known_of_needs_is_bounded() -> None:
    book = NeedsBook()
    for number in range(1100):
        book(pod(metadata={"uid": str(number)}))
    assert len(book._known) == 1000
