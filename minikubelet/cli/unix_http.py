"""HTTP over a unix socket, by the standard library."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.settimeout(self.timeout)
            connecting.connect(f"/proc/self/fd/{folder}/{self._path.name}")  # a path may be longer than an address
        except BaseException:
            connecting.close()
            raise
        finally:
            os.close(folder)
        self.sock = connecting


def unreached(where: Path, error: Exception, *, named_by: str) -> str:
    """Why nothing answers on the daemon's socket, and what to do about it. `named_by`: what names another one."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return (
                f"there is no socket {where}. Is minikubelet running (systemctl status minikubelet)? "
                f"If its rootDir is another folder, name the socket in it ({named_by})"
            )
        case PermissionError():
            return f"{where} may not be used by this user: run this as root"
        case ConnectionRefusedError():
            return f"minikubelet is not running: nobody listens on {where} (systemctl status minikubelet)"
        case BlockingIOError():  # the kernel's word for a queue that is full
            return f"minikubelet does not get to its clients on {where}: too many wait already; nothing was done"
        case TimeoutError():
            return f"minikubelet does not answer on {where}"
        case _:
            return f"minikubelet ended before it had answered on {where}: {error}; it is not known what was done"
