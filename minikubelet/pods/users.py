"""Ranges of the host's user ids for pods that have a user namespace of their own (SB-11).

Each pod's range is kept beside its other files, `ROOT/pods/<uid>/userns`, so it stays the same over restarts of the
daemon and is free again when the pod's folder goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from minikubelet.api.pod import Pod
from minikubelet.pods.volumes.layout import PRIVATE, Layout
from minikubelet.runtime.mapping import NodeContext
from minikubelet.runtime.mapping.users import IDS_OF_A_POD

#: The last one that 32 bits have room for. (The first is the host's own.)
_LAST = 2**32 // IDS_OF_A_POD - 1


class UserRanges:
    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._layout = Layout(node.root_dir)
        self._lock = asyncio.Lock()

    async def first_id(self, pod: Pod) -> int | None:
        """Where on the host the pod's own range begins; None: it has the host's, or the runtime has none to give.

        Raises OSError; RuntimeClassError.
        """
        if pod.spec.host_users or self._node.handler(pod.spec.runtime_class_name) not in self._node.user_namespaces:
            return None
        async with self._lock:
            return await asyncio.to_thread(self._take, pod.metadata.uid)

    def _take(self, uid: str) -> int:
        file = self._layout.pod(uid) / "userns"
        if (known := _first_id(file)) is not None:
            return known
        taken = {_first_id(other) for other in self._layout.pods.glob("*/userns")}
        first = next((n * IDS_OF_A_POD for n in range(1, _LAST + 1) if n * IDS_OF_A_POD not in taken), None)
        if first is None:
            raise OSError("no range of user ids is free for the pod")
        mapping = [{"hostId": first, "containerId": 0, "length": IDS_OF_A_POD}]
        file.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        fresh = file.with_name("userns.new")
        fresh.write_text(json.dumps({"uidMappings": mapping, "gidMappings": mapping}))
        fresh.rename(file)
        return first


def _first_id(file: Path) -> int | None:
    """None: there is no such file, or it cannot be understood."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return int(json.loads(file.read_text())["uidMappings"][0]["hostId"])
    return None
