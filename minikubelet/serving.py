"""What the daemon serves, and where: what can be seen on the read-only port, that and what acts on the control socket.

Called by `daemon.py`. Rooms whose commands are new add their operations to `operations`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

import structlog
from aiohttp import web

from minikubelet.config import Config
from minikubelet.jobs.roster import Roster
from minikubelet.pods.live import LivePods
from minikubelet.server.app import make_app, serve
from minikubelet.server.batch import batch_routes
from minikubelet.server.control import SOCKET, serve_control
from minikubelet.server.parts import Parts
from minikubelet.server.pods import pod_routes

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def served(
    config: Config,
    *,
    parts: Parts,
    jobs: Roster,
    pods: LivePods,
    routes: Iterable[web.RouteDef] = (),
    operations: Iterable[web.RouteDef] = (),
) -> AsyncIterator[None]:
    """Serve until left. `routes` only show, `operations` act. Raises server.app.ListenError."""
    batch = batch_routes(
        jobs=jobs.shown_jobs, job=jobs.shown_job, cronjobs=jobs.shown_cronjobs, subscribe=jobs.subscribe
    )
    single = pod_routes(pods=pods.all, subscribe=lambda changed: pods.subscribe(lambda _uid, _pod: changed()))
    seen = (*batch, *single, *routes)
    async with contextlib.AsyncExitStack() as stack:
        control = make_app(parts, routes=(*seen, *operations), on_network=False)
        await stack.enter_async_context(serve_control(control, config.root_dir / SOCKET))
        if config.read_only_port:
            serving = serve(make_app(parts, routes=seen), address=config.address, port=config.read_only_port)
            address, port = await stack.enter_async_context(serving)
            log.info("listening", address=address, port=port)
        yield
