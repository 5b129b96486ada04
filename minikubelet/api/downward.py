"""The downward API: a pod's own fields and resources as text, for environment variables and files (EV-4 to EV-6, VO-9).

Validation asks here what may be referred to, the environment and the volumes what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import msgspec

from minikubelet.api import quantity
from minikubelet.api.container import Container
from minikubelet.api.environment import ResourceFieldSelector
from minikubelet.api.pod import Pod

#: What a fieldRef may name, without subscripts, in the reference's order.
ENV_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
#: Fields of a pod that exist and are offered to neither.
OTHER_FIELDS = ("spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase")
#: What may be followed by a key: `metadata.labels['app']`.
SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
RESOURCE_PREFIXES = ("limits.hugepages-", "requests.hugepages-")

#: Limits for which the node's own size stands in when there is none (EV-6).
_OF_THE_NODE = ("cpu", "memory", "ephemeral-storage")


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod is reached, and its host."""

    pod_ips: Sequence[str] = ()
    host_ips: Sequence[str] = ()


def split_subscript(path: str) -> tuple[str, str | None]:
    """`metadata.labels['app']` -> `metadata.labels`, `app`; None if there is no key."""
    head, bracket, key = path.removesuffix("']").partition("['")
    return (head, key) if path.endswith("']") and bracket and head else (path, None)


def field_text(pod: Pod, path: str, addresses: Addresses) -> str:
    """The value of a field; "" for one that is not set, or a label or annotation that is not there (EV-4).

    Raises KeyError: a path that validation refuses.
    """
    meta = pod.metadata
    head, key = split_subscript(path)
    if key is not None:
        return {"metadata.labels": meta.labels, "metadata.annotations": meta.annotations}[head].get(key, "")
    fields: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: meta.name,
        "metadata.namespace": lambda: meta.namespace,
        "metadata.uid": lambda: meta.uid,
        "spec.nodeName": lambda: pod.spec.node_name,
        "spec.serviceAccountName": lambda: pod.spec.service_account_name,
        "status.hostIP": lambda: next(iter(addresses.host_ips), ""),
        "status.hostIPs": lambda: ",".join(addresses.host_ips),
        "status.podIP": lambda: next(iter(addresses.pod_ips), ""),
        "status.podIPs": lambda: ",".join(addresses.pod_ips),
    }
    return fields[path]()


def resource_text(
    container: Container, selector: ResourceFieldSelector, *, allocatable: Mapping[str, Fraction] | None
) -> str:
    """A request or limit in units of the divisor, rounded up (EV-5).

    `allocatable`: what the node has for pods, in place of a limit that is absent or zero; None: 0 then (EV-6).
    """
    kind, _, name = selector.resource.partition(".")
    amounts = container.resources.limits if kind == "limits" else container.resources.requests
    amount = quantity.parse(amounts.get(name, "0"))
    if not amount and kind == "limits" and name in _OF_THE_NODE and allocatable is not None:
        amount = allocatable.get(name, Fraction())
    divisor = quantity.parse(selector.divisor or "0") or Fraction(1)
    scale = 1000 if name == "cpu" else 1
    return str(_ceil(Fraction(_ceil(amount * scale), _ceil(divisor * scale))))


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
