"""Why containerd's socket cannot be used: told before gRPC wraps it into something that helps nobody. Blocking."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be, and what to do about it."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem} -- {self.remedy}"


def socket_finding(endpoint: str) -> Finding | None:
    """None if something accepts connections there. `endpoint`: a path, or `unix://path`."""
    path = Path(endpoint.removeprefix("unix://"))
    try:
        mode = path.stat().st_mode
        if not stat.S_ISSOCK(mode):
            return Finding(
                problem=f"{path} is not a socket", remedy="set containerRuntimeEndpoint to containerd's socket"
            )
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            probe.connect(str(path))
    except FileNotFoundError:
        return Finding(
            problem=f"containerd's socket {path} does not exist",
            remedy="install and start containerd (systemctl start containerd), "
            "or set containerRuntimeEndpoint to where its socket is",
        )
    except PermissionError:
        return Finding(problem=f"containerd's socket {path} may not be used by this user", remedy="run as root")
    except ConnectionRefusedError:
        return Finding(
            problem=f"nothing listens on containerd's socket {path}",
            remedy="start containerd: systemctl restart containerd; its log: journalctl -u containerd",
        )
    except OSError as error:
        return Finding(
            problem=f"containerd's socket {path} cannot be used: {error.strerror}", remedy="see whether containerd runs"
        )
    return None
