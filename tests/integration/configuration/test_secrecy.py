"""A secret's value is nowhere but in its file in memory and in the environment of the containers that were given it."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.configuration.folder import Folder, secret
from tests.support.registry import Registry
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

VALUE, LATER, BROKEN = "tangerine-zeppelin", "marmalade-submarine", "cucumber-cathedral"
#: As they are written, and as docker's configuration writes them.
WORDS = tuple(
    word
    for value in (VALUE, LATER, BROKEN)
    for word in (value.encode(), base64.b64encode(f"jo:{value}".encode()).rstrip(b"="))
)

POD = """apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, "echo up; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    args: [x, "$(PW)"]
    env: [{name: PW, valueFrom: {secretKeyRef: {name: s, key: pw}}}]
    volumeMounts: [{name: s, mountPath: /s}, {name: p, mountPath: /p}, {name: s, mountPath: /one, subPath: pw}]
    readinessProbe: {exec: {command: [cat, /s/nothing]}, periodSeconds: 1}
    lifecycle: {preStop: {exec: {command: [cat, /s/nothing]}}}
  - name: no-such-program
    image: busybox:1.36
    command: ["$(PW)"]
    env: [{name: PW, valueFrom: {secretKeyRef: {name: s, key: pw}}}]
  - name: no-such-key
    image: busybox:1.36
    env: [{name: PW, valueFrom: {secretKeyRef: {name: s, key: absent}}}]
  volumes:
  - {name: s, secret: {secretName: s}}
  - {name: p, projected: {sources: [{secret: {name: s, items: [{key: pw, path: deep/pw}]}}]}}
"""


@pytest.fixture
async def folder() -> AsyncIterator[Folder]:
    async with private_site() as site:
        yield Folder(site)


def words_in(data: bytes) -> set[str]:
    return {word.decode() for word in WORDS if word in data}


def on_disk(top: Path) -> Iterator[Path]:
    """Files below a folder, without those of file systems that are mounted there."""
    device = top.stat().st_dev
    waiting = [top]
    while waiting:
        for entry in waiting.pop().iterdir():
            if entry.is_symlink() or entry.stat().st_dev != device:
                continue
            if entry.is_dir():
                waiting.append(entry)
            elif entry.is_file():
                yield entry


async def leaks(folder: Folder) -> list[str]:
    """Every place where one of the words is found that must not have it."""
    node = folder.site.node
    found = []
    for top in (node.base / "minikubelet", node.logs):
        found += [str(file) for file in on_disk(top) if words_in(file.read_bytes() + bytes(file))]
    if words := words_in(node.log.read_bytes()):
        found.append(f"the daemon's log: {words}")
    for path in ("/pods", "/events", "/status", "/healthz", "/readyz", "/livez", "/jobs", "/cronjobs", "/metrics", "/"):
        try:
            answer = await asyncio.to_thread(lambda url: urllib.request.urlopen(url).read(), f"{node.url}{path}")  # noqa: S310
        except urllib.error.HTTPError as error:
            answer = error.read()
        if words := words_in(answer):
            found.append(f"{path}: {words}")
    sandboxes = await folder.site.cri.list_pod_sandboxes()
    found += [f"sandbox {sandbox.id}" for sandbox in sandboxes if words_in(str(sandbox).encode())]
    for container in await folder.site.cri.list_containers():
        status = await folder.site.cri.container_status(container.id)
        if words := words_in(f"{container} {status}".encode()):
            found.append(f"container {container.metadata.name}: {words}")
    return found


async def test_a_secrets_value_is_found_nowhere_else(folder: Folder) -> None:
    folder.put("secret", secret("s", pw=VALUE))
    folder.put("pod", POD)
    await folder.event("Failed", "couldn't find key absent in Secret default/s")
    await folder.event("Failed", "<secret>")
    await folder.event("Unhealthy", "Readiness probe failed")
    assert await leaks(folder) == []
    folder.put("secret", secret("s", pw=LATER, more=LATER))
    (pod,) = await folder.site.pods()
    volume = folder.site.node.base / f"minikubelet/pods/{pod['metadata']['uid']}/volumes/kubernetes.io~secret/s/more"

    async def has_followed() -> bool:
        return volume.exists() and volume.read_text() == LATER

    await folder.site.until("the files have followed", has_followed)
    broken = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{pw: {BROKEN}!}}\nstringData: [{BROKEN}]\n"
    folder.put("secret", f"{broken}---\nkind: Secret\nstringData: {{pw: *{BROKEN}}}\n")

    async def is_refused() -> bool:
        return b"secret.yaml" in folder.site.node.log.read_bytes()

    await folder.site.until("the broken manifest is refused", is_refused)
    assert await leaks(folder) == []
    folder.take("secret")
    await folder.event("FailedMount", 'secret "s" not found')
    folder.take("pod")
    await folder.site.gone()
    assert await leaks(folder) == []


def registry_pod(registry: Registry) -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  terminationGracePeriodSeconds: 1
  imagePullSecrets: [{{name: pull}}]
  containers:
  - {{name: main, image: "{registry.address}/a/b:1", command: [sleep, "1000"]}}
"""


def pull_secret(registry: Registry, password: str) -> str:
    login = base64.b64encode(f"jo:{password}".encode()).decode()
    config = json.dumps({"auths": {registry.address: {"auth": login}}})
    return (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\ntype: kubernetes.io/dockerconfigjson\n"
        f"stringData: {{.dockerconfigjson: {json.dumps(config)}}}\n"
    )


async def test_a_registrys_password_is_found_nowhere(folder: Folder, tmp_path: Path) -> None:
    async with Registry(tmp_path, users=[("jo", LATER)]) as registry:
        broken = folder.site.node.base / "minikubelet/.dockercfg"
        broken.write_text(f'{{"{registry.address}": {{"auth": "{BROKEN}!"}}}}')
        folder.put("secret", pull_secret(registry, VALUE))
        folder.put("pod", registry_pod(registry))
        await folder.waits("ImagePullBackOff", "uthoriz")
        broken.unlink()
        assert await leaks(folder) == []
        folder.put("secret", pull_secret(registry, LATER))
        await folder.site.running()
        assert "jo" in registry.askers
        assert await leaks(folder) == []
        auth = '\\"auth\\": \\"'
        whole = pull_secret(registry, VALUE)
        assert auth in whole
        folder.put("secret", whole.replace(auth, f"{auth}{BROKEN}!"))

        async def is_refused() -> bool:
            return b"<secret contents redacted>" in folder.site.node.log.read_bytes()

        await folder.site.until("the broken manifest is refused", is_refused)
        assert await leaks(folder) == []


async def test_the_search_would_find_it(folder: Folder) -> None:
    folder.put("secret", secret("s", pw="other"))
    folder.put("pod", POD.replace("name: web", f"name: web, annotations: {{note: {VALUE}}}"))
    await folder.event("Failed", "couldn't find key absent in Secret default/s")
    found = " ".join(await leaks(folder))
    for place in ("/pods", "minikubelet.db", "sandbox"):
        assert place in found
