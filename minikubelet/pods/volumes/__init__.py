"""Volumes and the other files a pod has on the host: what its containers find mounted.

`manager.VolumeManager` is all that the workers see. One module per kind of volume; `layout` alone says where things lie.
"""

from minikubelet.pods.volumes.manager import RETRY, VolumeManager
from minikubelet.pods.volumes.plugin import MountSource, VolumeError

__all__ = ["RETRY", "MountSource", "VolumeError", "VolumeManager"]
