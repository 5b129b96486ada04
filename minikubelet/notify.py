"""Telling systemd how the daemon is (sd_notify): ready, stopping, alive. Does nothing where nobody listens."""

from __future__ import annotations

import asyncio
import os
import socket

import structlog

log = structlog.get_logger(__name__)


def notify(message: str) -> None:
    """Send e.g. `READY=1` or `STATUS=…` to the supervisor."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect(address)
            connection.send(message.encode())
    except OSError as error:
        log.warning("the supervisor could not be told", message=message, error=str(error))


async def keep_watchdog_fed() -> None:
    """Report twice per watchdog interval, from the event loop: a loop that hangs stops reporting and is restarted."""
    interval = watchdog_interval()
    while interval:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval / 2)


def watchdog_interval() -> float:
    """Seconds within which the supervisor wants to hear from this process; 0: it does not."""
    wanted, meant = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or (meant and meant != str(os.getpid())):
        return 0.0
    return int(wanted) / 1e6
