"""Good manifests: defaults, identity, notes, and how errors show."""

import json
import sys
import time
from typing import Any

import msgspec
import pytest

from minikubelet.api.decode import DecodedFile, decode_file
from minikubelet.api.defaults import with_defaults
from minikubelet.api.pod import Container, Pod, PodSpec, Probe, is_sidecar
from minikubelet.api.support import Level, matrix


def manifest(
    spec: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", **metadata},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36", **(container or {})}], **(spec or {})},
    }


def decode(document: dict[str, Any], name: str = "web.json", node: str = "node") -> DecodedFile:
    return decode_file(name, json.dumps(document).encode(), node_name=node)


def pod_of(document: dict[str, Any], name: str = "web.json", node: str = "node") -> Pod:
    decoded = decode(document, name, node)
    assert decoded.errors == ()
    (pod,) = decoded.objects
    assert isinstance(pod, Pod)
    return pod


def as_json(pod: Pod) -> Any:
    return json.loads(msgspec.json.encode(pod))


def test_a_pod_of_a_file_is_named_placed_and_marked() -> None:
    """IN-5, IN-7, IN-8; names get no node suffix."""
    pod = pod_of(manifest(), node="Host-1")
    uid = pod.metadata.uid
    assert len(uid) == 32
    assert int(uid, 16) >= 0
    assert (pod.metadata.name, pod.metadata.namespace, pod.spec.node_name) == ("web", "default", "Host-1")
    assert pod.metadata.annotations == {"kubernetes.io/config.hash": uid, "kubernetes.io/config.source": "file"}
    (toleration,) = pod.spec.tolerations
    assert (toleration.operator, toleration.effect) == ("Exists", "NoExecute")


def test_defaults_are_written_out() -> None:  # IN-9, LC 12.9
    shown = as_json(
        pod_of(
            manifest(
                {"volumes": [{"name": "v"}]},
                {
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": "0.1"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                    "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
                },
            )
        )
    )
    assert shown["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {
                    "limits": {"cpu": "500m", "memory": "1Gi"},
                    "requests": {"cpu": "100m", "memory": "1Gi"},
                },
                "livenessProbe": {
                    "httpGet": {"port": "http", "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "enableServiceLinks": True,
        "schedulerName": "default-scheduler",
        "nodeName": "node",
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    }


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/x", "Always"),
        ("x@sha256:" + "a" * 64, "IfNotPresent"),
        ("NOT valid", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:  # IN-9
    assert pod_of(manifest(container={"image": image})).spec.containers[0].image_pull_policy == policy


def test_host_ports_follow_container_ports_on_the_host_network() -> None:  # IN-9
    spec = {
        "hostNetwork": True,
        "initContainers": [{"name": "i", "image": "x", "ports": [{"containerPort": 81}]}],
    }
    pod = pod_of(manifest(spec, {"ports": [{"containerPort": 80}]}))
    assert pod.spec.containers[0].ports[0].host_port == 80
    assert pod.spec.init_containers[0].ports[0].host_port == 81


@pytest.mark.parametrize(("written", "used"), [(None, 30), (0, 0), (5, 5), (-3, 1)])
def test_a_negative_grace_becomes_one_second(written: int | None, used: int) -> None:  # PH 2.3
    pod = pod_of(manifest({"terminationGracePeriodSeconds": written}))
    assert pod.spec.termination_grace_period_seconds == used


def test_zero_in_a_probe_means_the_default() -> None:  # PH 2.1
    zeros = dict.fromkeys(("timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"), 0)
    pod = pod_of(manifest(container={"livenessProbe": {"exec": {"command": ["true"]}, **zeros}}))
    probe = pod.spec.containers[0].liveness_probe
    assert probe is not None
    assert msgspec.structs.replace(probe, exec=None) == Probe()


def test_defaulting_twice_changes_nothing() -> None:
    pod = pod_of(manifest(container={"resources": {"limits": {"cpu": "1.5"}}, "ports": [{"containerPort": 1}]}))
    assert with_defaults(pod) == pod


def test_sidecars_are_init_containers_with_policy_always() -> None:
    spec = {
        "initContainers": [
            {"name": name, "image": "x"} | ({"restartPolicy": policy} if policy else {})
            for name, policy in (("a", None), ("b", "Always"), ("c", "OnFailure"), ("d", "Never"))
        ]
    }
    assert [is_sidecar(c) for c in pod_of(manifest(spec)).spec.init_containers] == [False, True, False, False]


def test_a_switched_off_feature_gate_refuses_sidecars() -> None:
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always"}
    data = json.dumps(manifest({"initContainers": [sidecar]})).encode()
    decoded = decode_file("web.json", data, node_name="node", sidecar_containers=False)
    reason = "sidecars are switched off: the feature gate SidecarContainers is false in the configuration"
    assert [str(error) for error in decoded.errors] == [
        f"web.json:1: spec.initContainers[0].restartPolicy: Forbidden: {reason}"
    ]
    assert decode_file("web.json", data, node_name="node").errors == ()


def test_a_uid_of_the_users_own_is_kept() -> None:  # LC 12.3
    pod = pod_of(manifest(uid="my-uid"))
    assert pod.metadata.uid == "my-uid"
    assert pod.metadata.annotations["kubernetes.io/config.hash"] == "my-uid"


BASE = """
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: busybox:1.36
    resources:
      limits: {cpu: 1, memory: 64Mi}
"""


def uid_of(text: str, *, name: str = "web.yaml", node: str = "node") -> str:
    decoded = decode_file(name, text.encode(), node_name=node)
    assert decoded.errors == ()
    uid: str = decoded.objects[0].metadata.uid
    return uid


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# a comment\n" + BASE, id="comment"),
        pytest.param(BASE.replace("apiVersion: v1\nkind: Pod", "kind: Pod\napiVersion: v1"), id="order"),
        pytest.param(BASE.replace("cpu: 1, memory: 64Mi", "memory: 64Mi, cpu: 1000m"), id="spelling of a quantity"),
        pytest.param(
            BASE + "  restartPolicy: Always\n  terminationGracePeriodSeconds: 30\n", id="written-out defaults"
        ),
        pytest.param(BASE + "    imagePullPolicy: IfNotPresent\n    tty: false\n    command: []\n", id="zero values"),
        pytest.param(BASE + "      requests: {cpu: 1}\n", id="default request"),
        pytest.param(BASE + "  nodeName: elsewhere\n", id="node name"),
        pytest.param(BASE.replace("name: web", 'name: "web"\n  namespace: default'), id="default namespace"),
        pytest.param(BASE + "status: {phase: Running}\n", id="status"),
    ],
)
def test_the_uid_stays_when_nothing_changes_in_meaning(text: str) -> None:  # LC 12.3, IN-5, IN-6, D-1
    assert uid_of(text) == uid_of(BASE)


@pytest.mark.parametrize(
    ("text", "name", "node"),
    [
        pytest.param(BASE.replace("1.36", "1.37"), "web.yaml", "node", id="image"),
        pytest.param(BASE.replace("64Mi", "65Mi"), "web.yaml", "node", id="limit"),
        pytest.param(BASE.replace("name: web", "name: web\n  labels: {a: b}"), "web.yaml", "node", id="label"),
        pytest.param(BASE, "other.yaml", "node", id="file"),
        pytest.param(BASE, "web.yaml", "other", id="node"),
        pytest.param(BASE + "  schedulerName: mine\n", "web.yaml", "node", id="field without effect"),
    ],
)
def test_the_uid_changes_with_content_file_and_node(text: str, name: str, node: str) -> None:  # IN-6, D-1
    assert uid_of(text, name=name, node=node) != uid_of(BASE)


def test_fields_without_meaning_here_are_accepted_kept_and_named() -> None:  # pod-to-cri 14
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    spec = {"schedulerName": "mine", "priority": 3, "affinity": beside, "nodeName": "elsewhere"}
    decoded = decode(manifest(spec, {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}))
    assert decoded.errors == ()
    assert {(note.path, note.message) for note in decoded.notes} == {
        ("spec.schedulerName", "has no meaning without a cluster"),
        ("spec.priority", "has no meaning without a cluster"),
        ("spec.affinity.podAffinity", "has no meaning without a cluster"),
        ("spec.nodeName", "is always this node's name; what the file says is not used"),
        ("spec.containers[0].resizePolicy", "has no meaning without a cluster"),
    }
    assert decoded.objects[0].spec.scheduler_name == "mine"
    assert str(decoded.notes[0]).startswith("web.json:1: spec.")


WITHOUT_EFFECT: dict[str, Any] = {
    "affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
            ]
        },
    },
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "nodeName": "elsewhere",
    "preemptionPolicy": "Never",
    "priority": 3,
    "priorityClassName": "gold",
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "schedulerName": "mine",
    "schedulingGroup": {"podGroupName": "g"},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
}


def test_what_only_a_cluster_gives_a_meaning_is_kept_and_named() -> None:
    """14/no-effect, 14/priority-class, 14/node-name: each with its value, but for the node's name."""
    given: dict[str, Any] = {
        "generateName": "web-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
        "finalizers": ["example.com/keep"],
    }
    decoded = decode(manifest(WITHOUT_EFFECT, **given))
    assert decoded.errors == ()
    paths = {f"spec.{name}" for name in WITHOUT_EFFECT.keys() - {"affinity"}} | {f"metadata.{name}" for name in given}
    assert {note.path for note in decoded.notes} == paths | {
        "spec.affinity.podAffinity",
        "spec.affinity.podAntiAffinity",
    }
    shown = as_json(decoded.objects[0])
    assert {name: shown["spec"][name] for name in WITHOUT_EFFECT.keys() - {"nodeName", "tolerations", "affinity"}} == {
        name: value for name, value in WITHOUT_EFFECT.items() if name not in ("nodeName", "tolerations", "affinity")
    }
    assert shown["spec"]["nodeName"] == "node"
    assert {name: shown["metadata"][name] for name in given} == given


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"restartPolicy": policy}, id=f"VI-1 {policy} on an init container")
        for policy in ("Always", "Never", "OnFailure")
    ]
    + [
        pytest.param(
            {
                "restartPolicy": "Always",
                "lifecycle": {hook: {"exec": {"command": ["x"]}} for hook in ("postStart", "preStop")},
                **{probe: {"grpc": {"port": 1}} for probe in ("livenessProbe", "readinessProbe", "startupProbe")},
            },
            id="VI-3 a sidecar has hooks and probes",
        ),
        pytest.param(
            {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]},
            id="VI-4 rules beside a policy",
        ),
        pytest.param(
            {"restartPolicy": "Always", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            id="VI-5 of a sidecar",
        ),
    ],
)
def test_what_an_init_container_may_say(fields: dict[str, Any]) -> None:
    assert decode(manifest({"initContainers": [{"name": "side", "image": "x", **fields}]})).errors == ()


@pytest.mark.parametrize("policy", ["Always", "Never", "OnFailure"])
def test_vi_1_a_regular_container_may_have_a_policy_of_its_own(policy: str) -> None:
    assert decode(manifest(container={"restartPolicy": policy})).errors == ()


def test_what_an_api_server_wrote_is_dropped_and_named() -> None:
    metadata: dict[str, Any] = {
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "deletionTimestamp": "2024-01-01T00:00:00Z",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
        "generation": None,
    }
    decoded = decode({**manifest(**metadata), "status": {"phase": "Failed", "unheard": "of"}})
    assert decoded.errors == ()
    assert {note.path for note in decoded.notes} == {
        "status", "metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.resourceVersion",
        "metadata.managedFields",
    }  # fmt: skip
    (pod,) = decoded.objects
    assert (pod.status, pod.metadata.deletion_timestamp, pod.metadata.resource_version) == (None, None, "")


def test_written_out_defaults_of_refused_fields_are_fine() -> None:
    spec = {
        "securityContext": {}, "hostPID": False, "hostUsers": True, "subdomain": "", "imagePullSecrets": [],
        "nodeSelector": {}, "readinessGates": None, "serviceAccountName": "",
    }  # fmt: skip
    container = {"securityContext": None, "envFrom": [], "env": [{"name": "A", "value": None}]}
    assert decode(manifest(spec, container)).errors == ()


def refused_paths() -> list[str]:
    rows = [row for row in matrix(Pod) if row.mark.level is Level.REFUSED]
    return [row.path for row in rows if row.path.startswith("spec.") and row.path.count(".") == 1]


@pytest.mark.parametrize("path", refused_paths())
def test_a_refused_field_of_the_spec_is_never_ignored(path: str) -> None:
    cls_field = next(f for f in msgspec.structs.fields(PodSpec) if f"spec.{f.encode_name}" == path)
    other: Any = (not cls_field.default) if isinstance(cls_field.default, bool) else "x"
    decoded = decode(manifest({cls_field.encode_name: other}))
    assert decoded.objects == ()
    assert [error.path for error in decoded.errors] == [path]
    assert decoded.errors[0].message.startswith("Forbidden: ")


def test_an_error_is_a_line_that_editors_can_follow() -> None:
    (error,) = decode_file("web.yaml", (BASE + "  schedulingGates: [x]\n").encode(), node_name="node").errors
    assert str(error).startswith("web.yaml:12: spec.schedulingGates: Forbidden: not supported by this agent: ")
    assert (error.line, error.document, error.path) == (12, 1, "spec.schedulingGates")


def test_pods_survive_being_stored() -> None:
    pod = pod_of(manifest({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}, {"tty": True}))
    assert msgspec.json.decode(msgspec.json.encode(pod), type=Pod) == pod


@pytest.mark.skipif(sys.gettrace() is not None, reason="measuring coverage takes its own time")
def test_a_typical_pod_decodes_in_milliseconds() -> None:
    data = (BASE + "".join(f"  - {{name: c{n}, image: x, env: [{{name: A, value: b}}]}}\n" for n in range(5))).encode()
    decode_file("web.yaml", data, node_name="node")
    assert min(_cpu_seconds(data) for _ in range(20)) < 0.005


def _cpu_seconds(data: bytes) -> float:
    start = time.thread_time()
    decode_file("web.yaml", data, node_name="node")
    return time.thread_time() - start


def test_thousands_of_errors_do_not_take_for_ever() -> None:
    unknown = "".join(f"    unknown{n}: 1\n" for n in range(5000))
    mounts = "".join(f"    - {{name: none{n}, mountPath: /{n}}}\n" for n in range(5000))
    text = BASE + unknown + "    volumeMounts:\n" + mounts
    start = time.thread_time()
    decoded = decode_file("web.yaml", text.encode(), node_name="node")
    assert len(decoded.errors) == 10_000
    assert time.thread_time() - start < 10


def test_structs_can_be_built_by_hand_with_the_kubelets_defaults() -> None:
    spec = PodSpec(containers=(Container(name="a"),))
    assert (spec.restart_policy, spec.termination_grace_period_seconds, spec.dns_policy) == (
        "Always",
        30,
        "ClusterFirst",
    )
    assert Probe().period_seconds == 10
