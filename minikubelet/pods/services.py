"""What all workers share: the runtime, images, volumes, events and the facts of this node. Made once by `daemon.py`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

from minikubelet.lifecycle.backoff import BackoffPolicy
from minikubelet.pods.images import ImagePuller
from minikubelet.pods.live import LivePods
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.recorder import EventRecorder
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
    volumes: VolumeManager
    clients: Clients
    recorder: EventRecorder
    live: LivePods
    store: Store
    node: NodeContext
    #: The content of the host's resolv.conf as it is now; None: none is to be used (DNS-3).
    resolv_conf: Callable[[], str | None]
    crash_backoff: BackoffPolicy
    #: How many sandbox and container starts run at a time, all pods together: more than the cores can carry only
    #: makes each of them slower (CD 12).
    starts: asyncio.Semaphore
    #: Unix seconds.
    clock: Callable[[], float]
