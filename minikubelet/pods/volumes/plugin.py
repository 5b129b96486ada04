"""What a kind of volume is to the manager: a function that makes it ready and says what to mount (VO-1).

A new kind is a new function in `manager.PLUGINS`, under the name of its field in the manifest's volume.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import msgspec

from minikubelet.api.objects import Objects
from minikubelet.api.pod import Pod, Volume
from minikubelet.pods.volumes.layout import Layout


class VolumeError(Exception):
    """A volume cannot be set up or taken down. The text is the kubelet's event message (VO-2)."""


class PluginError(Exception):
    """Why a plug-in could not do it; the manager puts the volume's name around it."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One volume to set up. `memory`: the most that it may take in bytes, or 0 for no limit (VO-4).

    `objects`: what there is to make files of; `uncertain`: some file of the folder cannot be read, so that what is not
    among them may be there all the same. `allocatable`: see NodeContext.
    """

    pod: Pod
    volume: Volume
    layout: Layout
    memory: int
    objects: Objects = Objects()
    uncertain: bool = False
    allocatable: Mapping[str, Fraction] = {}


#: Returns the path on the host that containers mount. Idempotent; runs in a thread and may block.
#: Raises PluginError, OSError or UnsafeNameError.
Plugin = Callable[[Request], str]
#: Brings what is in the volume up to date, if it was set up. Raises as a plug-in does.
Refresher = Callable[[Request], None]
