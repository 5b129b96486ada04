"""What the configuration says of the node: whether it makes sense, and in the form that the rooms use.

`config.py` asks for what is wrong, `daemon.py` for the rest. Each `*_problem` returns None if all is well.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.effective import Amounts
from minikubelet.api.sysctls import namespace_of, normalized
from minikubelet.api.validation import names
from minikubelet.runtime.capacity import THRESHOLDS, Kept

HOSTNAME_LABEL, OS_LABEL, ARCH_LABEL = "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"

#: Go's names of the machines that the kernel calls otherwise.
_ARCHITECTURES = {
    "x86_64": "amd64", "aarch64": "arm64", "armv6l": "arm", "armv7l": "arm", "i386": "386", "i686": "386",
    "loongarch64": "loong64",
}  # fmt: skip
_RESERVABLE = ("cpu", "memory", "ephemeral-storage")
_PERCENTAGE = re.compile(r"[0-9]+(\.[0-9]+)?%")

Quantities = Mapping[str, str | int | float]


def kept(*, reserved: Iterable[Quantities], thresholds: Quantities) -> Kept:
    """What the host keeps for itself, from values without problems."""
    total: Amounts = {}
    for amounts in reserved:
        for name, amount in amounts.items():
            total[name] = total.get(name, Fraction()) + quantity.parse(str(amount))
    return Kept(reserved=total, thresholds={signal: str(value) for signal, value in thresholds.items()})


def node_labels(configured: Mapping[str, str], *, node_name: str) -> dict[str, str]:
    """The node's labels, those included that every node has."""
    machine = platform.machine()
    own = {HOSTNAME_LABEL: node_name, OS_LABEL: "linux", ARCH_LABEL: _ARCHITECTURES.get(machine, machine)}
    return {**configured, **own}


def reserved_problem(amounts: Quantities) -> str | None:
    for name, amount in amounts.items():
        if name not in _RESERVABLE:
            return f"{name} cannot be reserved; {', '.join(_RESERVABLE)} can"
        if problem := _amount_problem(name, str(amount)):
            return problem
    return None


def thresholds_problem(thresholds: Quantities) -> str | None:
    for signal, value in thresholds.items():
        text = str(value)
        if signal not in THRESHOLDS:
            return f"{signal} is not used here; {', '.join(THRESHOLDS)} are"
        if text.endswith("%"):
            if not _PERCENTAGE.fullmatch(text) or Fraction(text.removesuffix("%")) > 100:
                return f"{signal}: {text} has to be a percentage from 0% to 100%"
        elif problem := _amount_problem(signal, text):
            return problem
    return None


def log_size_problem(size: str | int) -> str | None:
    try:
        value = quantity.parse(str(size))
    except quantity.QuantityError as error:
        return f"{size} {error}"
    return None if value else "0 would put every log aside again and again; -1 never does"


def sysctls_problem(patterns: Iterable[str]) -> str | None:
    for pattern in patterns:
        name = pattern.removesuffix("*")
        if not name or "*" in name:
            return f"{pattern!r} has to be the name of a sysctl, or the beginning of one and a *"
        if namespace_of(name) is None:
            own = "net.*, kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*"
            return f"{pattern!r} is the whole host's; of each pod's own are only {own}"
        if normalized(name) != name:
            return f"{pattern!r} has to be written with dots: {normalized(pattern)!r}"
    return None


def labels_problem(labels: Mapping[str, str]) -> str | None:
    for key, value in labels.items():
        if key in (HOSTNAME_LABEL, OS_LABEL, ARCH_LABEL):
            return f"{key} is set by itself"
        if problems := names.qualified_name(key):
            return f"{key}: {problems[0]}"
        if problems := names.label_value(value):
            return f"{key}: {problems[0]}"
    return None


def runtime_classes_problem(classes: Mapping[str, str]) -> str | None:
    for name, handler in classes.items():
        if problems := names.dns_subdomain(name):
            return f"{name}: {problems[0]}"
        if not handler:
            return f"{name}: name the runtime's handler for it, such as runsc"
    return None


def _amount_problem(name: str, text: str) -> str | None:
    try:
        value = quantity.parse(text)
    except quantity.QuantityError as error:
        return f"{name}: {text} {error}"
    return None if value >= 0 else f"{name}: {text} has to be 0 or more"
