"""How punctual many probes are: the probes of all pods go to one server here, which notes when each arrives."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator

from aiohttp import web


class ProbeServer:
    """Answers every probe with 200. The path is the pod's name."""

    def __init__(self) -> None:
        self.port = 0
        self._arrivals: dict[str, list[float]] = collections.defaultdict(list)

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[ProbeServer]:
        app = web.Application()
        app.router.add_get("/{pod}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self._arrivals[request.match_info["pod"]].append(time.monotonic())
        return web.Response()

    async def lateness(self, pods: list[str], *, seconds: float) -> list[float]:
        """Of every probe within the next so many seconds, against the schedule that its pod's first one sets."""
        self._arrivals.clear()
        await asyncio.sleep(seconds)
        late = []
        for pod in pods:
            first, *rest = self._arrivals[pod]
            late += [at - first - round(at - first) for at in rest]
            if len(rest) < seconds - 2:
                raise RuntimeError(f"{pod} was probed {len(rest) + 1} times in {seconds} s")
        return late
