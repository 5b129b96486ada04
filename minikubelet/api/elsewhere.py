"""What people bring from a cluster that one host has no use for: for each such kind, what to do with it here.

`decode` refuses a document of these kinds with this advice.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

_TEMPLATE = (
    "nothing here makes pods for it; write what is under spec.template as a document of its own, "
    "with apiVersion: v1, kind: Pod and a metadata.name"
)
_NO_NETWORK = (
    "there is no cluster network; leave it out, and let people reach the pod by a hostPort of its container, "
    "or programs on this host by its IP"
)
_NO_ACCESS = "there is no API server whose use would have to be allowed; leave it out"
_CLAIM = "a PersistentVolumeClaim is a directory on this host and needs nothing else; leave it out"
_NO_LIMITS = "it is not enforced here; leave it out"

_ADVICE = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController"), f"{_TEMPLATE} (one for each replica)"),
    "StatefulSet": f"{_TEMPLATE}, and each of volumeClaimTemplates as a PersistentVolumeClaim that the pod names",
    "DaemonSet": _TEMPLATE,
    "PodTemplate": _TEMPLATE,
    **dict.fromkeys(("Service", "Endpoints", "EndpointSlice"), _NO_NETWORK),
    **dict.fromkeys(
        ("Ingress", "IngressClass", "Gateway", "GatewayClass", "HTTPRoute", "IngressRoute"),
        "there is no ingress controller; leave it out, and run a proxy as a pod with a hostPort",
    ),
    **dict.fromkeys(("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), _NO_ACCESS),
    "Namespace": "a namespace is there as soon as an object names it; leave it out",
    **dict.fromkeys(("PersistentVolume", "StorageClass", "CSIDriver", "VolumeAttachment"), _CLAIM),
    "NetworkPolicy": f"{_NO_LIMITS}, and use the firewall of this host",
    **dict.fromkeys(("ResourceQuota", "LimitRange"), _NO_LIMITS),
    **dict.fromkeys(
        ("HorizontalPodAutoscaler", "VerticalPodAutoscaler", "PodDisruptionBudget", "PriorityClass"),
        "it means nothing on a single host; leave it out",
    ),
    "RuntimeClass": "name it under runtimeClasses in the configuration instead",
    **dict.fromkeys(
        ("Kustomization", "HelmChart", "HelmRelease", "Application"),
        "nothing renders it here; put here what it renders to (kubectl kustomize, helm template)",
    ),
    "CustomResourceDefinition": "there is no API server to define it for; leave it out",
    **dict.fromkeys(
        ("ServiceMonitor", "PodMonitor", "PrometheusRule"),
        "there is no Prometheus operator; write it into the configuration of your Prometheus",
    ),
}


def advice_on(kind: str, understood: Iterable[tuple[str, str]]) -> str:
    """What to do with a document of a kind that is not understood. `understood`: apiVersion and kind of what is."""
    known = list(understood)
    if advice := _ADVICE.get(kind):
        return advice
    if close := _close(kind, {name for _, name in known}):
        return f"did you mean {close}?"
    if kind.endswith("List"):
        return "lists are not accepted; write their items as documents of their own, separated by ---"
    return "understood are: " + ", ".join(f"{name} ({version})" for version, name in known)


def advice_on_no_kind(fields: Collection[str]) -> str:
    """What a document is, by its outermost fields, that says no kind; empty if that cannot be told."""
    if "services" in fields:
        return "this looks like a compose file; write a Pod, with a container for each service that belongs to it"
    if "containers" in fields:
        return (
            "this looks like the spec of a Pod; put it under spec, with apiVersion: v1, kind: Pod and a metadata.name"
        )
    return ""


def _close(kind: str, names: Collection[str]) -> str:
    by_lower_case = {name.lower(): name for name in names}
    close = difflib.get_close_matches(kind.lower(), by_lower_case, n=1, cutoff=0.8)
    return by_lower_case[close[0]] if close else ""
