"""What the read-only server shows of Jobs and CronJobs. `daemon` adds these routes to the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from minikubelet.api.batch import CronJob, Job

_encode = msgspec.json.encode


def batch_routes(
    *, jobs: Callable[[], Iterable[Job]], cronjobs: Callable[[], Iterable[CronJob]]
) -> tuple[web.RouteDef, ...]:
    async def list_jobs(_: web.Request) -> web.Response:
        return _listing("JobList", jobs())

    async def list_cronjobs(_: web.Request) -> web.Response:
        return _listing("CronJobList", cronjobs())

    return (web.get("/jobs", list_jobs), web.get("/cronjobs", list_cronjobs))


def _listing(kind: str, items: Iterable[Job | CronJob]) -> web.Response:
    body = _encode({"kind": kind, "apiVersion": "batch/v1", "metadata": {}, "items": list(items)})
    return web.Response(body=body, content_type="application/json")
