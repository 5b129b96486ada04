"""What a kind of volume is to the manager: a function that makes it ready and says what to mount (VO-1).

A new kind is a new function in `manager.PLUGINS`, under the name of its field in the manifest's volume.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from minikubelet.api.pod import Pod, Volume
from minikubelet.pods.volumes.layout import Layout


class VolumeError(Exception):
    """A volume cannot be set up or taken down. The text is the kubelet's event message (VO-2)."""


class PluginError(Exception):
    """Why a plug-in could not do it; the manager puts the volume's name around it."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One volume to set up. `memory`: the most that it may take in bytes, or 0 for no limit (VO-4)."""

    pod: Pod
    volume: Volume
    layout: Layout
    memory: int


#: Returns the path on the host that containers mount. Idempotent; runs in a thread and may block.
#: Raises PluginError, OSError or UnsafeNameError.
Plugin = Callable[[Request], str]
