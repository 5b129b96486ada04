"""What the four handlers have in common: the result of an attempt, what is probed, and how its port is found."""

from __future__ import annotations

import enum

import msgspec

from minikubelet.api.pod import Container

#: Longest output of a probe, in bytes: more of a command's output or of a response is not looked at (PH 6.2, 6.3).
MAX_OUTPUT = 10 * 1024


class Outcome(enum.Enum):
    SUCCESS = "success"
    WARNING = "warning"  # counts as success, gives an event
    FAILURE = "failure"
    ERROR = "error"  # says nothing about the container: is tried again, then discarded (PH 6.1)


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt's result. `state`: the word in an error's event, unknown or (a broken HTTP body) failure."""

    outcome: Outcome
    output: str = ""
    state: str = "unknown"


SUCCESS = Attempt(outcome=Outcome.SUCCESS)


def failure(output: str) -> Attempt:
    return Attempt(outcome=Outcome.FAILURE, output=output)


def error(output: str, *, state: str = "unknown") -> Attempt:
    return Attempt(outcome=Outcome.ERROR, output=output, state=state)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The container that is probed or hooked. `address`: the pod's first IP, or the node's for hostNetwork pods."""

    container: Container
    container_id: str
    address: str


class PortError(Exception):
    """A port that cannot be resolved; the text is the kubelet's."""


def resolve_port(port: int | str, container: Container) -> int:
    """The number of a port given by number or by a name in the container's `ports` (PH 6.1).

    Raises PortError for a name that no port has, and for a number out of range.
    """
    if isinstance(port, str):
        named = next((p.container_port for p in container.ports if p.name == port), None)
        if named is None:
            raise PortError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        port = named
    if not 0 < port < 65536:
        raise PortError(f"invalid port number: {port}")
    return port
