"""Volumes and the other files a pod has on the host: what its containers find mounted.

The workers see `manager.VolumeManager` only. One module per kind of volume; `layout` alone says where things lie.
"""

from minikubelet.pods.volumes.manager import RETRY, VolumeManager
from minikubelet.pods.volumes.plugin import VolumeError

__all__ = ["RETRY", "VolumeError", "VolumeManager"]
