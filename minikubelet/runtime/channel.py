"""The one gRPC channel to containerd, which serves CRI and containerd's own services alike (CD 1).

The daemon opens it once and hands it to `cri.Cri`, `images.ImageService`, `state.RuntimeState` and `checks`.
"""

from __future__ import annotations

from pathlib import Path

import grpc.aio

#: What containerd's own services want to be told; CRI keeps everything in this namespace.
NAMESPACE = (("containerd-namespace", "k8s.io"),)

#: The daemon's limit is 16 MiB both ways, Python's own would be 4. All three back-off settings are needed for a quick
#: reconnect, and quick it must be: an exit that happened while containerd was down is told only once more (CD 11).
#: No keepalive: containerd answers pings with GOAWAY, and a unix socket reports a dead peer at once.
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
    ("grpc.use_local_subchannel_pool", 1),
)


def connect(socket: str | Path) -> grpc.aio.Channel:
    """Open a channel to a unix socket (a path, or `unix://path`). Nothing is sent yet; close it when done."""
    path = str(socket).removeprefix("unix://")
    return grpc.aio.insecure_channel(f"unix://{Path(path).absolute()}", options=_OPTIONS)
