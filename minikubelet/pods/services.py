"""What all workers share: the runtime, images, volumes, events and the facts of this node. Made once by `daemon.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.pods.admission import Admit
from minikubelet.pods.cgroups import PodCgroups
from minikubelet.pods.image_news import ImageNews
from minikubelet.pods.image_uses import ImageUses
from minikubelet.pods.images import ImagePuller
from minikubelet.pods.live import LivePods
from minikubelet.pods.objects import ObjectStore
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.recorder import EventRecorder
from minikubelet.pods.slots import StartSlots
from minikubelet.pods.users import UserRanges
from minikubelet.pods.volumes.manager import VolumeManager
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.mapping import NodeContext
from minikubelet.runtime.state import RuntimeState
from minikubelet.store.database import Store


@dataclasses.dataclass(frozen=True, kw_only=True)
class Services:
    cri: CRIClient
    state: RuntimeState
    images: ImagePuller
    image_news: ImageNews
    image_uses: ImageUses
    volumes: VolumeManager
    users: UserRanges
    cgroups: PodCgroups
    #: Whether the node takes a pod beside those that are active.
    admit: Admit
    objects: ObjectStore
    clients: Clients
    recorder: EventRecorder
    live: LivePods
    store: Store
    node: NodeContext
    #: The content of the host's resolv.conf as it is now; None: none is to be used (DNS-3).
    resolv_conf: Callable[[], str | None]
    crash_backoff: BackoffPolicy
    starts: StartSlots
    #: Unix seconds.
    clock: Callable[[], float]
