"""Wires the rooms together and runs until it is told to end. The only module that knows them all.

The folder decides what is wanted, `pods/` makes it so, the server tells. Ending the daemon, by a signal or a crash,
leaves every container as it is; the next start takes them up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import structlog
from aiohttp import web

from minikubelet.api import quantity
from minikubelet.api.batch import CronJob, Job
from minikubelet.api.decode import decode_file
from minikubelet.config import Config
from minikubelet.image_operations import image_operations, image_routes
from minikubelet.imaging import Imaging
from minikubelet.jobs.commands import JobCommands
from minikubelet.jobs.controller import JobController
from minikubelet.jobs.events import job_events
from minikubelet.jobs.pod_runner import ManagedPods
from minikubelet.jobs.roster import Key, Manifest
from minikubelet.lifecycle.backoff import CRASH, BackoffPolicy
from minikubelet.node.admission import NeedsBook, Node, admit
from minikubelet.node.log_rotation import LogRotation
from minikubelet.node_facts import node_facts
from minikubelet.notify import keep_watchdog_fed, notify
from minikubelet.operations import operations
from minikubelet.pods.cgroups import pod_cgroups
from minikubelet.pods.live import LivePods
from minikubelet.pods.manager import PodManager, Wanted
from minikubelet.pods.objects import ObjectStore, Stored
from minikubelet.pods.probes.handlers.clients import Clients
from minikubelet.pods.probes.handlers.http_client import HttpClient
from minikubelet.pods.pull_credentials import PullCredentials
from minikubelet.pods.recorder import EventRecorder
from minikubelet.pods.services import Services
from minikubelet.pods.slots import StartSlots
from minikubelet.pods.users import UserRanges
from minikubelet.pods.volumes import VolumeManager
from minikubelet.pods.volumes.layout import Layout
from minikubelet.pods.volumes.usage import SizeWatch
from minikubelet.reporting import Reporting
from minikubelet.runtime.channel import connect
from minikubelet.runtime.checks import inspect, keep_looking
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.host import default_address
from minikubelet.runtime.mapping import NodeContext
from minikubelet.runtime.mapping.cgroup import pod_limits
from minikubelet.runtime.regular_files import read_regular
from minikubelet.runtime.state import RuntimeState
from minikubelet.serving import served
from minikubelet.sources.desired import Desired, Remembered
from minikubelet.sources.folder import FolderSource
from minikubelet.store.database import Store, open_store
from minikubelet.store.schema import SchemaTooNewError

log = structlog.get_logger(__name__)

#: Bytes.
_LONGEST_RESOLV_CONF = 1024 * 1024


class StartError(Exception):
    """The daemon cannot run; the message says why and what to do about it."""


async def run(config: Config) -> None:
    """Run until SIGTERM or SIGINT; containers go on.

    Raises StartError or server.app.ListenError before anything was touched.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        try:
            stack.enter_context(_only_one(config.root_dir))
            store = await stack.enter_async_context(open_store(config.root_dir / "minikubelet.db"))
        except (OSError, sqlite3.OperationalError) as error:
            raise StartError(f"the state folder {config.root_dir} cannot be used: {error}") from error
        except SchemaTooNewError as error:
            raise StartError(str(error)) from error
        channel = await stack.enter_async_context(connect(config.container_runtime_endpoint))
        await Daemon(config, store=store, channel=channel).serve(stop)


@contextlib.contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Hold the lock of the state folder. Raises StartError when another daemon has it."""
    root.mkdir(mode=0o750, parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(
                f"another minikubelet works with {root}: end it, or give this one another rootDir"
            ) from None
        yield


class Daemon:
    def __init__(self, config: Config, *, store: Store, channel: grpc.aio.Channel) -> None:
        self._config = config
        self._store = store
        self._channel = channel
        self._cri = CRIClient(channel)
        self._state = RuntimeState(channel, owner=str(config.root_dir), clock=time.time)
        self._live = LivePods()
        self._recorder = EventRecorder(clock=time.time)
        self._reporting = Reporting(
            config,
            live=self._live,
            recorder=self._recorder,
            state=self._state,
            job_events=lambda: job_events(self._jobs),
        )
        self._objects = ObjectStore()
        self._imaging = Imaging(
            config,
            channel=channel,
            state=self._state,
            live=self._live,
            recorder=self._recorder,
            credentials=PullCredentials(self._objects, root=config.root_dir, home=_home()),
        )
        self._reporting.image_archives = self._imaging.status
        self._manager = PodManager(store=store, live=self._live, node_ip=config.node_ip or default_address())
        self._jobs = JobController(
            transact=store.durably,
            runner=ManagedPods(self._manager, live=self._live, state=self._state),
            node_name=config.node,
        )
        self._first_read = asyncio.Event()

    async def serve(self, stop: asyncio.Event) -> None:
        config = self._config
        remembered = [
            Remembered(file=it.file, uid=it.pod.metadata.uid, object=it.pod)
            for it in await self._manager.load()
            if it.file  # no manifest defines the others
        ]
        for manifest in await self._jobs.load():
            uid = manifest.object.metadata.uid
            remembered.append(Remembered(file=manifest.file, uid=uid, object=manifest.object))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(
                served(
                    config,
                    parts=self._reporting.parts(),
                    jobs=self._jobs.roster,
                    pods=self._live,
                    routes=image_routes(self._imaging),
                    operations=self._operations(),
                )
            )
            source = FolderSource(
                config.static_pod_path,
                functools.partial(decode_file, node_name=config.node, sidecar_containers=config.sidecar_containers),
                remembered=remembered,
                check_frequency=config.file_check_frequency,
            )
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            background = [
                tasks.create_task(self._state.run(), name="follow containerd"),
                tasks.create_task(source.run(self._wanted), name="watch the manifests"),
                tasks.create_task(keep_watchdog_fed(), name="feed the watchdog"),
                tasks.create_task(self._imaging.run(), name="look after images"),
                tasks.create_task(self._run_pods(), name="run pods"),
                tasks.create_task(self._log_rotation().run(), name="rotate logs"),
                tasks.create_task(
                    SizeWatch(Layout(config.root_dir), self._live.all).run(), name="watch volumes' sizes"
                ),
            ]
            notify("READY=1\nSTATUS=waiting for containerd")
            await stop.wait()
            log.info("ending; containers go on")
            notify("STOPPING=1")
            for task in background:
                task.cancel()

    def _log_rotation(self) -> LogRotation:
        return LogRotation(
            self._state,
            self._cri.reopen_container_log,
            max_size=quantity.whole(str(self._config.container_log_max_size)),
            max_files=self._config.container_log_max_files,
        )

    def _operations(self) -> tuple[web.RouteDef, ...]:
        """What the control socket can have done."""
        jobs = JobCommands(self._jobs, hindrance=self._reporting.hindrance)
        about_pods = operations(jobs=jobs, pods=self._manager, live=self._live, store=self._store)
        return (*about_pods, *image_operations(self._imaging))

    def _wanted(self, desired: Desired) -> None:
        self._reporting.desired = desired
        self._objects.apply(  # before the pods that refer to them
            (it.object for it in desired.objects.values() if isinstance(it.object, Stored)),
            uncertain=bool(desired.errors or desired.being_written),
        )
        self._imaging.manifests_name(it.object for it in desired.objects.values())
        self._manager.apply({key: Wanted(it.pod, it.file) for key, it in desired.pods.items()})
        self._jobs.apply(jobs=_manifests(desired, Job), crons=_manifests(desired, CronJob))
        self._first_read.set()

    async def _run_pods(self) -> None:
        async with self._services() as services, self._manager.serve(services):
            await self._first_read.wait()
            self._imaging.informed.set()
            notify("STATUS=running pods")
            for uid in self._state.uids():
                self._manager.end_orphan(uid, pod=self._state.carried(uid))
            async with self._jobs.serve():
                await keep_looking(
                    self._channel,
                    endpoint=self._config.container_runtime_endpoint,
                    tell=self._reporting.found,
                    cgroup_driver=self._config.cgroup_driver,
                )

    @contextlib.asynccontextmanager
    async def _services(self) -> AsyncIterator[Services]:
        """What workers share. Waits until the runtime can be used, and says what keeps it from that."""
        config = self._config
        node, offer = await self._node()
        cgroups = pod_cgroups(node)
        await cgroups.prepare()
        await self._state.wait_connected()
        async with HttpClient() as http:
            yield Services(
                cri=self._cri,
                state=self._state,
                images=self._imaging.puller,
                image_news=self._imaging.news,
                image_uses=self._imaging.uses,
                volumes=VolumeManager(
                    config.root_dir,
                    allocatable=node.allocatable,
                    objects=self._objects,
                    memory_limit=lambda pod: pod_limits(pod, node).memory or 0,
                ),
                users=UserRanges(node),
                cgroups=cgroups,
                admit=functools.partial(admit, node=offer, needs=NeedsBook()),
                objects=self._objects,
                clients=Clients(exec_sync=self._cri.exec_sync, http=http, runtime_answers=self._cri.answers),
                recorder=self._recorder,
                live=self._live,
                store=self._store,
                node=node,
                resolv_conf=functools.partial(read_resolv_conf, config.resolv_conf),
                crash_backoff=crash_backoff(config),
                starts=StartSlots(2 * (os.cpu_count() or 1)),
                clock=time.time,
            )

    async def _node(self) -> tuple[NodeContext, Node]:
        """What pods are made by, and admitted. Waits until the runtime can be used."""
        runtime = await inspect(
            self._channel,
            endpoint=self._config.container_runtime_endpoint,
            tell=self._reporting.found,
            cgroup_driver=self._config.cgroup_driver,
        )
        self._reporting.reached(runtime)
        log.info("container runtime", name=runtime.name, version=runtime.version)
        return await node_facts(self._config, runtime, sandbox_image=self._imaging.reached(runtime.sandbox_image))


def _manifests(desired: Desired, kind: type[Job | CronJob]) -> dict[Key, Manifest]:
    return {
        Key(key.namespace, key.name): Manifest(it.object, it.file)
        for key, it in desired.objects.items()
        if isinstance(it.object, kind)
    }


def _home() -> Path | None:
    """The home folder as the environment names it: a service often has none."""
    home = os.environ.get("HOME")
    return Path(home) if home else None


def read_resolv_conf(path: str) -> str | None:
    """The configured file, read anew each time since networks change; None: none is configured (DNS-3).

    Raises OSError with the file's name, also where it is no regular file nor a link to one.
    """
    if not path:
        return None
    try:
        return read_regular(Path(path), limit=_LONGEST_RESOLV_CONF).decode(errors="replace")
    except OSError as error:
        raise OSError(f"resolvConf: {path}: {error.strerror or error}") from error


def crash_backoff(config: Config) -> BackoffPolicy:
    """LC 7.8: a maximum below the usual first delay is also the first delay."""
    maximum = config.crash_loop_back_off.max_container_restart_period
    return BackoffPolicy(initial=min(CRASH.initial, maximum), factor=CRASH.factor, maximum=maximum, reset=CRASH.reset)
