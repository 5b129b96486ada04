"""Pod cgroups on hosts where systemd manages them: a slice each, asked for over D-Bus.

systemd owns the cgroups of its slices: limits written to their files would be gone with its next reload. So each slice
is a transient unit with the limits as its properties; it survives a reload and is gone when it is stopped. (containerd
asks systemd for a scope within the slice for each container. It would also make the slice, but without limits.)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import structlog
from jeepney import DBusAddress, HeaderFields, MatchRule, Message, MessageType, message_bus, new_method_call
from jeepney.auth import AuthenticationError
from jeepney.io.asyncio import DBusRouter, open_dbus_router
from jeepney.io.common import RouterClosed

from minikubelet.pods.cgroups.files import weight
from minikubelet.runtime.mapping.cgroup import UNLIMITED, CgroupLimits

log = structlog.get_logger(__name__)

_MANAGER = DBusAddress(
    "/org/freedesktop/systemd1", bus_name="org.freedesktop.systemd1", interface="org.freedesktop.systemd1.Manager"
)
_INFINITY = 2**64 - 1
#: Microseconds of cpu time a second: systemd knows whole percents only.
_PERCENT = 10_000
#: Seconds until systemd has to have answered.
_PATIENCE = 10.0
_EXISTS, _UNKNOWN = "org.freedesktop.systemd1.UnitExists", "org.freedesktop.systemd1.NoSuchUnit"

#: A property's name, and its value with its D-Bus type.
Property = tuple[str, tuple[str, Any]]


class SystemdError(OSError):
    """systemd cannot be reached, or refused."""


def slice_properties(limits: CgroupLimits, *, v2: bool) -> list[Property]:
    """Pure. Limits of huge pages are not among them: systemd knows nothing of those."""
    properties: list[Property] = [("CPUWeight", ("t", weight(limits.cpu_shares)))]
    if not v2:
        properties = [("CPUShares", ("t", limits.cpu_shares))]
    if limits.cpu_quota is not None and limits.cpu_period is not None:
        per_second = _INFINITY
        if limits.cpu_quota != UNLIMITED:
            exact = limits.cpu_quota * 1_000_000 // limits.cpu_period
            # Rounded up, so that a container's own limit is never above its pod's.
            per_second = -(-exact // _PERCENT) * _PERCENT
        properties += [("CPUQuotaPerSecUSec", ("t", per_second)), ("CPUQuotaPeriodUSec", ("t", limits.cpu_period))]
    if limits.memory is not None:
        properties.append(("MemoryMax" if v2 else "MemoryLimit", ("t", limits.memory)))
    if limits.pids is not None:
        properties.append(("TasksMax", ("t", limits.pids)))
    return properties


class Slices:
    """Slices by their unit's name: `kubepods-pod1.slice`. All methods raise SystemdError."""

    def __init__(self, *, v2: bool, address: str = "SYSTEM") -> None:
        """`address`: of the bus."""
        self._v2 = v2
        self._address = address

    async def make(self, name: str, limits: CgroupLimits) -> None:
        """Make the slice, or give one that exists these limits. Returns when its cgroup is there."""
        properties = slice_properties(limits, v2=self._v2)
        accounting = ["CPUAccounting", "MemoryAccounting", "TasksAccounting", "IOAccounting" if self._v2 else ""]
        fresh: list[Property] = [
            ("Description", ("s", f"minikubelet {name.removesuffix('.slice')}")),
            ("DefaultDependencies", ("b", False)),
            *((each, ("b", True)) for each in accounting if each),
        ]
        async with self._bus() as bus:
            try:
                await bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", (name, "replace", fresh + properties, []))
            except _RefusedError as error:
                if error.name != _EXISTS:
                    raise SystemdError(f"systemd did not make {name}: {error}") from error
                await bus.call("SetUnitProperties", "sba(sv)", (name, True, properties))
                await bus.job("StartUnit", "ss", (name, "replace"))

    async def remove(self, name: str) -> None:
        """Stop the slice, and with it whatever is in it. Fine if there is none."""
        async with self._bus() as bus:
            try:
                await bus.job("StopUnit", "ss", (name, "replace"))
            except _RefusedError as error:
                if error.name != _UNKNOWN:
                    raise SystemdError(f"systemd did not stop {name}: {error}") from error

    @contextlib.asynccontextmanager
    async def _bus(self) -> AsyncIterator[_Bus]:
        try:
            async with asyncio.timeout(_PATIENCE), open_dbus_router(self._address) as router:
                yield _Bus(router)
        except TimeoutError as error:
            raise SystemdError(f"systemd did not answer within {_PATIENCE:g} s") from error
        except _RefusedError as error:
            raise SystemdError(f"systemd refused: {error}") from error
        except SystemdError:
            raise
        except (OSError, AuthenticationError, RouterClosed) as error:
            hint = "is dbus installed, and does it run?"
            raise SystemdError(f"systemd cannot be reached over D-Bus: {error}; {hint}") from error


class _RefusedError(Exception):
    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class _Bus:
    """One connection, for one piece of work."""

    def __init__(self, router: DBusRouter) -> None:
        self._router = router
        self._listens = False

    async def call(self, member: str, signature: str = "", body: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        return await self._reply(new_method_call(_MANAGER, member, signature, body))

    async def job(self, member: str, signature: str, body: tuple[Any, ...]) -> None:
        """A call that answers with a job; returns when the job is done."""
        rule = MatchRule(type="signal", interface=_MANAGER.interface, member="JobRemoved", path=_MANAGER.object_path)
        if not self._listens:  # systemd refuses to be asked twice
            await self._reply(message_bus.AddMatch(rule))
            await self.call("Subscribe")
            self._listens = True
        with self._router.filter(rule, queue=asyncio.Queue()) as ended:
            (job,) = await self.call(member, signature, body)
            while True:
                _, path, unit, result = (await ended.get()).body
                if path == job:
                    break
        if result != "done":
            raise SystemdError(f"systemd: {member} {unit}: {result}")

    async def _reply(self, message: Message) -> tuple[Any, ...]:
        reply = await self._router.send_and_get_reply(message)
        body: tuple[Any, ...] = reply.body
        if reply.header.message_type == MessageType.error:
            name = reply.header.fields.get(HeaderFields.error_name, "")
            raise _RefusedError(name, str(body[0]) if body else name)
        return body
