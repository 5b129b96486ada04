"""The commands about Jobs and pods, as operations of the control socket. `daemon` makes them from its rooms.

    POST   /cronjobs/NAMESPACE/NAME/run[?name=JOB]         a Job of the CronJob, now
    POST   /jobs/NAMESPACE/NAME/suspend, resume
    POST   /jobs/NAMESPACE/NAME/restart[?wait=true]
    DELETE /jobs/NAMESPACE/NAME[?wait=true]                one that no file asks for
    DELETE /pods/NAMESPACE/NAME[?gracePeriodSeconds=N][&wait=true]

The first step of an answer comes when what was done would survive the daemon; with `wait` the answer ends when nothing
of the old run or pod is left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from aiohttp import web

from minikubelet.api.meta import key_of
from minikubelet.api.pod import Pod
from minikubelet.api.refusals import RefusedError
from minikubelet.jobs.commands import JobCommands
from minikubelet.jobs.roster import Key
from minikubelet.pods.live import LivePods
from minikubelet.pods.manager import PodManager
from minikubelet.server.control import Step, operation
from minikubelet.store.database import Store

Steps = AsyncGenerator[Step, None]


def operations(*, jobs: JobCommands, pods: PodManager, live: LivePods, store: Store) -> tuple[web.RouteDef, ...]:
    async def run(request: web.Request) -> Steps:
        job = await jobs.run_from(_key(request), name=request.query.get("name"))
        yield _done("job.batch", job.metadata.name, "created")

    async def suspend(request: web.Request) -> Steps:
        changed = await jobs.suspend(key := _key(request), suspended=True)
        yield _done("job.batch", key.name, "suspended" if changed else "is suspended already")

    async def resume(request: web.Request) -> Steps:
        changed = await jobs.suspend(key := _key(request), suspended=False)
        yield _done("job.batch", key.name, "resumed" if changed else "is not suspended")

    async def restart(request: web.Request) -> Steps:
        uid = await jobs.restart(key := _key(request))
        yield _done("job.batch", key.name, "restarted")
        if _waits(request):
            await jobs.replaced(key, uid)

    async def delete_job(request: web.Request) -> Steps:
        uid = await jobs.delete(key := _key(request))
        yield _deleted("job.batch", key.name)
        if _waits(request):
            await jobs.replaced(key, uid)

    async def delete_pod(request: web.Request) -> Steps:
        grace, key = _grace(request), _key(request)
        await jobs.ready()
        uid = _one_of(live, key).metadata.uid
        gone = pods.gone(uid)
        if not await jobs.delete_pod(uid):
            pods.delete(uid, grace=grace)
        elif grace is not None:
            pods.end(uid, grace=grace)
        if not await store.settled():
            raise RefusedError(
                "InternalError",
                f"pod {key.name} is ending, but that cannot be written down, as the log says: "
                "if the daemon ends before the pod has, the pod goes on",
            )
        yield _deleted("pod", key.name)
        if _waits(request):
            await gone.wait()

    return (
        operation("POST", "/cronjobs/{namespace}/{name}/run", run),
        operation("POST", "/jobs/{namespace}/{name}/suspend", suspend),
        operation("POST", "/jobs/{namespace}/{name}/resume", resume),
        operation("POST", "/jobs/{namespace}/{name}/restart", restart),
        operation("DELETE", "/jobs/{namespace}/{name}", delete_job),
        operation("DELETE", "/pods/{namespace}/{name}", delete_pod),
    )


def _done(kind: str, name: str, what: str) -> Step:
    return Step(message=f"{kind}/{name} {what}", object=f"{kind}/{name}")


def _deleted(kind: str, name: str) -> Step:
    return Step(message=f'{kind} "{name}" deleted', object=f"{kind}/{name}")


def _key(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["name"])


def _waits(request: web.Request) -> bool:
    return request.query.get("wait") == "true"


def _grace(request: web.Request) -> int | None:
    text = request.query.get("gracePeriodSeconds")
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise RefusedError("BadRequest", f"gracePeriodSeconds: {text!r} is not a number of seconds")
    return int(text)


def _one_of(live: LivePods, key: Key) -> Pod:
    """The pod of this name. While one ends, another may wait for its place: it comes later."""
    found = next((pod for pod in live.all() if key_of(pod.metadata) == f"{key.namespace}/{key.name}"), None)
    if found is None:
        raise RefusedError("NotFound", f'pods "{key.name}" not found')
    return found
