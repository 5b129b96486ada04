"""What the read-only server shows of Jobs and CronJobs. `daemon` adds these routes to the application.

`/jobs/NAMESPACE/NAME?for=Complete&seconds=5` answers as soon as the Job has that condition or has ended otherwise, and
when the seconds are over at the latest: so a client can wait without asking again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from minikubelet.api.batch import CronJob, Job
from minikubelet.server.waiting import Subscribe, seconds_of, until

_encode = msgspec.json.encode
_ENDED = frozenset({"Complete", "Failed"})


def batch_routes(
    *,
    jobs: Callable[[], Iterable[Job]],
    job: Callable[[str, str], Job | None],
    cronjobs: Callable[[], Iterable[CronJob]],
    subscribe: Subscribe,
) -> tuple[web.RouteDef, ...]:
    """`job`: the one of a namespace and name, without making all others up as well."""

    async def list_jobs(_: web.Request) -> web.Response:
        return _listing("JobList", jobs())

    async def list_cronjobs(_: web.Request) -> web.Response:
        return _listing("CronJobList", cronjobs())

    async def one_job(request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]

        condition = request.query.get("for", "")
        if condition:
            await until(lambda: _settled(job(namespace, name), condition), subscribe, seconds=seconds_of(request))
        found = job(namespace, name)
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=_encode(found), content_type="application/json")

    return (
        web.get("/jobs", list_jobs),
        web.get("/jobs/{namespace}/{name}", one_job),
        web.get("/cronjobs", list_cronjobs),
    )


def _listing(kind: str, items: Iterable[Job | CronJob]) -> web.Response:
    body = _encode({"kind": kind, "apiVersion": "batch/v1", "metadata": {}, "items": list(items)})
    return web.Response(body=body, content_type="application/json")


def _settled(job: Job | None, condition: str) -> bool:
    """Nothing is left to wait for."""
    if job is None or job.status is None:
        return job is None
    true = {each.type for each in job.status.conditions if each.status == "True"}
    return condition in true or bool(true & _ENDED)
