"""What a refusal advises: on kinds that belong to a cluster, and on fields that stand at the wrong place."""

from __future__ import annotations

import pytest

from minikubelet.api.decode import decode_file

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n"
CONTAINER = "spec:\n  containers:\n  - name: web\n    image: busybox:1.36\n"


def errors(text: str) -> list[str]:
    read = decode_file("a.yaml", text.encode(), node_name="node")
    return [f"{error.line}: {error.path}: {error.message}" for error in read.errors]


@pytest.mark.parametrize(
    ("api_version", "kind", "advice"),
    [
        ("apps/v1", "Deployment", "write what is under spec.template as a document of its own"),
        ("apps/v1", "DaemonSet", "write what is under spec.template as a document of its own"),
        ("apps/v1", "StatefulSet", "volumeClaimTemplates as a PersistentVolumeClaim"),
        ("v1", "Service", "leave it out, and let people reach the pod by a hostPort"),
        ("networking.k8s.io/v1", "Ingress", "run a proxy as a pod with a hostPort"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "leave it out"),
        ("v1", "Namespace", "leave it out"),
        ("v1", "PersistentVolume", "leave it out"),
        ("networking.k8s.io/v1", "NetworkPolicy", "use the firewall of this host"),
        ("kustomize.config.k8s.io/v1beta1", "Kustomization", "put here what it renders to"),
        ("v1", "pod", "did you mean Pod?"),
        ("batch/v1", "Cronjob", "did you mean CronJob?"),
        ("v1", "List", "write their items as documents of their own"),
        ("v1", "Nonsense", "understood are: Pod (v1), Job (batch/v1)"),
    ],
)
def test_a_kind_that_is_not_understood_is_refused_with_what_to_do(api_version: str, kind: str, advice: str) -> None:
    (error,) = errors(f"apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: web\n")
    assert error.startswith(f'2: kind: Unsupported value: "{kind}": ')
    assert advice in error


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            POD + CONTAINER + "restartPolicy: Never\n",
            "9: restartPolicy: Unknown field here: did you mean spec.restartPolicy? Check the indentation",
            id="top",
        ),
        pytest.param(
            POD + "  restartPolicy: Never\n" + CONTAINER,
            "5: metadata.restartPolicy: Unknown field here: did you mean spec.restartPolicy? Check the indentation",
            id="metadata",
        ),
        pytest.param(
            POD + CONTAINER + "  volumeMounts: [{name: a, mountPath: /a}]\n",
            "9: spec.volumeMounts: Unknown field here: did you mean spec.containers[].volumeMounts? "
            "Check the indentation",
            id="too little",
        ),
        pytest.param(
            POD + CONTAINER + "    hostNetwork: true\n",
            "9: spec.containers[0].hostNetwork: Unknown field here: did you mean spec.hostNetwork? "
            "Check the indentation",
            id="too much",
        ),
        pytest.param(
            POD + CONTAINER + "    securityContext: {fsGroup: 1000}\n",
            "9: spec.containers[0].securityContext.fsGroup: Unknown field here: "
            "did you mean spec.securityContext.fsGroup?",
            id="the pod's",
        ),
        pytest.param(
            POD + CONTAINER + "  securityContext: {privileged: true}\n",
            "9: spec.securityContext.privileged: Unknown field here: "
            "did you mean spec.containers[].securityContext.privileged?",
            id="the container's",
        ),
        pytest.param(
            POD + CONTAINER + "    port: [{containerPort: 80}]\n",
            "9: spec.containers[0].port: Unknown field: did you mean ports?",
            id="a slip",
        ),
        pytest.param(
            POD + CONTAINER + "    lifecycle: {preStop: {grpc: {port: 80}}}\n",
            "9: spec.containers[0].lifecycle.preStop.grpc: Unknown field",
            id="neither",
        ),
        pytest.param(
            POD + CONTAINER + "    colour: red\n", "9: spec.containers[0].colour: Unknown field", id="nowhere at home"
        ),
    ],
)
def test_a_field_at_the_wrong_place_is_told_where_it_belongs(text: str, error: str) -> None:
    assert errors(text) == [error]


@pytest.mark.parametrize(
    "text", ["metadata:\n  name: {{ .Release.Name }}\n", "{{- if .Values.enabled }}\nkind: Pod\n", "a: [{{ .b }}\n"]
)
def test_a_template_is_told_to_be_one(text: str) -> None:
    (error,) = errors(text)
    assert "this looks like a template: put here what it renders to" in error


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("services: {web: {image: nginx}}\n", ": this looks like a compose file"),
        ("containers: [{name: a, image: nginx}]\n", ": this looks like the spec of a Pod"),
        ("some: thing\n", ""),
    ],
)
def test_a_document_without_a_kind_is_told_what_it_seems_to_be(text: str, advice: str) -> None:
    first, second = errors(text)
    assert first.startswith(f"1: apiVersion: Required value{advice}")
    assert second.startswith(f"1: kind: Required value{advice}")
