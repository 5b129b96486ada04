"""Kernel settings by name: which namespace each lives in. Read by validation and by admission (AD-7)."""

from __future__ import annotations

import enum


class Namespace(enum.Enum):
    NET = "net"
    IPC = "ipc"


_IPC = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def normalized(name: str) -> str:
    """With dots between the parts: `net/ipv4/tcp_rmem` and `net.ipv4.tcp_rmem` are the same.

    The first separator decides, as in sysctl(8): where it is a slash, dots belong to the name of a part (an interface).
    """
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def namespace_of(name: str) -> Namespace | None:
    """None: it belongs to the whole host, so that no pod can have its own."""
    name = normalized(name)
    if name.startswith("net."):
        return Namespace.NET
    return Namespace.IPC if name == "kernel.sem" or name.startswith(_IPC) else None
