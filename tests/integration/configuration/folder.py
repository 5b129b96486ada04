"""A site whose folder these tests fill with YAML, and what its pods' processes print."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.printed import printed_lines
from tests.support.site import Site


class Folder:
    def __init__(self, site: Site) -> None:
        self.site = site

    def put(self, name: str, text: str) -> None:
        """A manifest that appears, or changes, at one moment."""
        staged = self.site.node.base / "staged"
        staged.write_text(text)
        staged.rename(self.site.node.manifests / f"{name}.yaml")

    def take(self, name: str) -> None:
        (self.site.node.manifests / f"{name}.yaml").unlink()

    def printed(self, container: str = "main", *, pod: str = "web") -> list[str]:
        """The lines of all instances of a container, in their order."""
        return printed_lines(self.site.node.logs.glob(f"*_{pod}_*/{container}/*.log"))

    async def prints(self, wanted: str, container: str = "main", *, within: float = 30) -> None:
        async def is_there() -> bool:
            return wanted in self.printed(container)

        await self.site.until(
            f"{container} prints {wanted!r}; it has {self.printed(container)}", is_there, within=within
        )

    async def finished(self, *, within: float = 60) -> list[str]:
        """What the main container has printed when the pod has succeeded."""

        async def succeeded() -> bool:
            return [pod["status"]["phase"] for pod in await self.site.pods()] == ["Succeeded"]

        await self.site.until("the pod has succeeded", succeeded, within=within)
        return self.printed()

    async def waits(self, reason: str, message: str = "") -> dict[str, Any]:
        """The pod's first regular container waits for this reason; its pod."""
        found: dict[str, Any] = {}

        async def is_waiting() -> bool:
            nonlocal found
            for pod in await self.site.pods():
                for status in pod["status"].get("containerStatuses", [])[:1]:
                    state = status["state"].get("waiting", {})
                    if state.get("reason") == reason and message in state.get("message", ""):
                        found = pod
            return bool(found)

        await self.site.until(f"it waits: {reason} {message}", is_waiting, within=30)
        return found

    async def event(self, reason: str, message: str) -> None:
        async def was_told() -> bool:
            return any(reason == it["reason"] and message in it["message"] for it in await self.events())

        await self.site.until(f"an event {reason} {message}", was_told, within=30)

    async def events(self) -> list[Any]:
        return list((await asyncio.to_thread(self.site.node.get, "/events"))["items"])


def config_map(name: str, **data: str) -> str:
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n{lines}---\n"


def secret(name: str, **data: str) -> str:
    lines = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in data.items())
    return f"apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData:\n{lines}---\n"


def pod(script: str, fields: str = "", spec: str = "", *, restart: str = "Never") -> str:
    """`fields` of its container `main` and of its `spec`, as YAML without indentation. What the script complains of
    stands between what it prints.
    """
    indented = [
        "\n".join(f"{blanks}{line}" for line in text.splitlines()) for text, blanks in ((fields, "    "), (spec, "  "))
    ]
    return f"""apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {{app: shop, tier: front}}
  annotations: {{note: 'said "so"'}}
spec:
  restartPolicy: {restart}
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, {json.dumps("exec 2>&1; " + script)}]
{indented[0]}
{indented[1]}
"""
