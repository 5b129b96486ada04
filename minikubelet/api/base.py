"""The base of every Kubernetes object: strict, typed, frozen, with Kubernetes' JSON names.

Every struct of `api/` derives from `Object`. Attribute names are Kubernetes' field names in snake case;
`kubernetes_name` gives the JSON name back (`host_ip` -> `hostIP`), so the two can never drift apart.
The aliases below are the scalar types of Kubernetes' API that Python's own types are too wide for: `schema` reads them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, dataclass_transform

import msgspec

_T = TypeVar("_T")

#: Field-name parts that Kubernetes writes in capitals (when they are not the first part).
_CAPITALS = {
    "ip": "IP", "ips": "IPs", "id": "ID", "pid": "PID", "ipc": "IPC", "fqdn": "FQDN", "api": "API", "io": "IO",
}  # fmt: skip


def kubernetes_name(attribute: str) -> str:
    """The JSON name of a field, e.g. `set_hostname_as_fqdn` -> `setHostnameAsFQDN`."""
    first, *rest = attribute.split("_")
    return first + "".join(_CAPITALS.get(part, part.capitalize()) for part in rest)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))  # for type checkers
class Object(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename=kubernetes_name
):
    """A Kubernetes object or part of one. Unset fields are None (or an empty tuple or dict) and are not encoded."""


def shown(value: _T) -> _T:
    """A default that is encoded as well, as Kubernetes shows it: only unset fields are left out."""
    return msgspec.field(default_factory=lambda: value)


class IntRange(msgspec.Struct, frozen=True):
    """The whole numbers that a field of Kubernetes' API can hold."""

    bits: int

    @property
    def lowest(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        return (1 << (self.bits - 1)) - 1


class Concealed(msgspec.Struct, frozen=True):
    """The mark of values that no message may show."""


class QuantityText(msgspec.Struct, frozen=True):
    """The mark of a text that has to be a Kubernetes quantity (`100m`, `64Mi`)."""


Int32 = Annotated[int, IntRange(32)]
Int64 = Annotated[int, IntRange(64)]
#: A quantity as text; `quantity` reads it. YAML numbers are accepted and kept as they are written.
Quantity = Annotated[str, QuantityText()]
CONCEALED = Concealed()
#: Content that is never looked into.
Raw = Any
