"""Slices asked of systemd over D-Bus: a bus of our own, which speaks the real protocol, stands in for it (CG-3)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jeepney import DBusAddress, HeaderFields, Message, Parser, new_error, new_method_return, new_signal

from minikubelet.pods.cgroups.systemd import Slices, SystemdError, slice_properties
from minikubelet.runtime.mapping.cgroup import UNLIMITED, CgroupLimits

LIMITS = CgroupLimits(cpu_shares=1024, cpu_quota=20_500, cpu_period=100_000, memory=4096, pids=9)
_MANAGER = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")


@pytest.mark.parametrize(
    ("limits", "v2", "expected"),
    [
        pytest.param(
            LIMITS,
            True,
            [
                ("CPUWeight", ("t", 39)),
                ("CPUQuotaPerSecUSec", ("t", 210_000)),
                ("CPUQuotaPeriodUSec", ("t", 100_000)),
                ("MemoryMax", ("t", 4096)),
                ("TasksMax", ("t", 9)),
            ],
            id="v2; quota rounded up to whole percents",
        ),
        pytest.param(
            CgroupLimits(cpu_shares=1024, memory=4096),
            False,
            [("CPUShares", ("t", 1024)), ("MemoryLimit", ("t", 4096))],
            id="v1",
        ),
        pytest.param(
            CgroupLimits(cpu_shares=2, cpu_quota=UNLIMITED, cpu_period=50_000),
            True,
            [
                ("CPUWeight", ("t", 1)),
                ("CPUQuotaPerSecUSec", ("t", 2**64 - 1)),
                ("CPUQuotaPeriodUSec", ("t", 50_000)),
            ],
            id="no quota",
        ),
    ],
)
def test_properties(limits: CgroupLimits, expected: list[Any], *, v2: bool) -> None:
    assert slice_properties(limits, v2=v2) == expected


class Systemd:
    """Answers on a socket as dbus-daemon and systemd would; notes the calls to systemd."""

    def __init__(self, socket: Path) -> None:
        self.address = f"unix:path={socket}"
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.units: set[str] = set()
        self.result = "done"
        self._socket = socket
        self._subscribed = False

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._client, self._socket)
        async with server:
            yield

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while (line := await reader.readuntil(b"\r\n")) != b"BEGIN\r\n":
                writer.write(b"OK 1234\r\n" if b"AUTH" in line else b"ERROR\r\n")
            self._subscribed = False
            parser = Parser()
            while data := await reader.read(65536):
                parser.add_data(data)
                while message := parser.get_next_message():
                    for number, answer in enumerate(self._answers(message)):
                        writer.write(answer.serialise(serial=message.header.serial * 10 + number))
        writer.close()

    def _answers(self, message: Message) -> list[Message]:
        member = message.header.fields[HeaderFields.member]
        if member in ("Hello", "AddMatch"):
            return [new_method_return(message, "s", (":1.1",))] if member == "Hello" else [new_method_return(message)]
        self.calls.append((member, message.body))
        if member == "Subscribe" and self._subscribed:
            text = "Client is already subscribed."
            return [new_error(message, "org.freedesktop.systemd1.AlreadySubscribed", "s", (text,))]
        self._subscribed = self._subscribed or member == "Subscribe"
        if member in ("Subscribe", "SetUnitProperties"):
            return [new_method_return(message)]
        unit = message.body[0]
        if member == "StartTransientUnit" and unit in self.units:
            return [new_error(message, "org.freedesktop.systemd1.UnitExists", "s", (f"Unit {unit} exists.",))]
        if member == "StopUnit" and unit not in self.units:
            return [new_error(message, "org.freedesktop.systemd1.NoSuchUnit", "s", (f"Unit {unit} not loaded.",))]
        (self.units.discard if member == "StopUnit" else self.units.add)(unit)
        other = new_signal(_MANAGER, "JobRemoved", "uoss", (1, "/job/1", "other.service", "done"))
        mine = new_signal(_MANAGER, "JobRemoved", "uoss", (2, "/job/2", unit, self.result))
        return [other, new_method_return(message, "o", ("/job/2",)), mine]


@pytest.fixture
async def systemd(tmp_path: Path) -> AsyncIterator[Systemd]:
    systemd = Systemd(tmp_path / "bus")
    async with systemd.serve():
        yield systemd


def slices(systemd: Systemd) -> Slices:
    return Slices(v2=True, address=systemd.address)


async def test_a_slice_is_a_transient_unit_with_its_limits(systemd: Systemd) -> None:
    await slices(systemd).make("kubepods-pod1.slice", LIMITS)
    (_, (name, mode, properties, others)) = systemd.calls[-1]
    assert (systemd.calls[-1][0], name, mode, others) == ("StartTransientUnit", "kubepods-pod1.slice", "replace", [])
    values = {key: value for key, (_, value) in properties}
    assert values["MemoryMax"] == 4096
    assert values["CPUAccounting"] is True
    assert values["DefaultDependencies"] is False


async def test_a_slice_that_exists_is_given_the_limits(systemd: Systemd) -> None:
    systemd.units.add("kubepods.slice")
    await slices(systemd).make("kubepods.slice", CgroupLimits(cpu_shares=1024))
    members = [member for member, _ in systemd.calls if member != "Subscribe"]
    assert members == ["StartTransientUnit", "SetUnitProperties", "StartUnit"]
    assert dict(systemd.calls)["SetUnitProperties"] == ("kubepods.slice", True, [("CPUWeight", ("t", 39))])


async def test_a_slice_is_stopped_and_once_more_does_no_harm(systemd: Systemd) -> None:
    await slices(systemd).make("kubepods-pod1.slice", LIMITS)
    await slices(systemd).remove("kubepods-pod1.slice")
    await slices(systemd).remove("kubepods-pod1.slice")
    assert systemd.units == set()


async def test_a_job_that_fails_is_an_error(systemd: Systemd) -> None:
    systemd.result = "failed"
    with pytest.raises(SystemdError, match=r"StartTransientUnit kubepods.slice: failed"):
        await slices(systemd).make("kubepods.slice", LIMITS)


async def test_without_a_bus_the_error_says_what_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(SystemdError, match="is dbus installed, and does it run"):
        await Slices(v2=True, address=f"unix:path={tmp_path}/none").make("kubepods.slice", LIMITS)
