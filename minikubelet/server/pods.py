"""One pod of those that the read-only server shows. `serving` adds this route to the application.

`/pods/NAMESPACE/NAME?uid=UID&container=web&restartCount=2&seconds=5` answers as soon as that instance of the container
does not run any more, and when the seconds are over at the latest: so whoever follows its log hears of its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from aiohttp import web

from minikubelet.api.pod import Pod
from minikubelet.server.waiting import Subscribe, seconds_of, until


def pod_routes(*, pods: Callable[[], Iterable[Pod]], subscribe: Subscribe) -> tuple[web.RouteDef, ...]:
    async def one_pod(request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        uid, container = request.query.get("uid", ""), request.query.get("container", "")

        def now() -> Pod | None:
            found = (pod for pod in pods() if (pod.metadata.namespace, pod.metadata.name) == (namespace, name))
            return next((pod for pod in found if uid in ("", pod.metadata.uid)), None)

        if container:
            count = _restart_count(request)
            await until(lambda: not _runs(now(), container, count), subscribe, seconds=seconds_of(request))
        pod = now()
        if pod is None:
            raise web.HTTPNotFound
        return web.Response(body=msgspec.json.encode(pod), content_type="application/json")

    return (web.get("/pods/{namespace}/{name}", one_pod),)


def _runs(pod: Pod | None, container: str, restart_count: int) -> bool:
    if pod is None or pod.status is None:
        return False
    return any(
        it.name == container and it.restart_count == restart_count and it.state.running is not None
        for it in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )


def _restart_count(request: web.Request) -> int:
    try:
        return int(request.query.get("restartCount", "0"))
    except ValueError:
        raise web.HTTPBadRequest(text="restartCount must be a number") from None
