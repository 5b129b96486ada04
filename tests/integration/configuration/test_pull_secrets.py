"""Images of a registry that wants to know who asks (IM-8 to IM-10), on real containerd."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minikubelet.runtime.channel import connect
from minikubelet.runtime.images import ImageService
from tests.integration.configuration.folder import Folder
from tests.support.registry import Registry
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

PASSWORD = "tangerine-zeppelin"  # noqa: S105 - of a registry that lives as long as its test

#: What all versions of containerd say in some way.
REFUSED = "uthoriz"


@pytest.fixture
async def folder() -> AsyncIterator[Folder]:
    async with private_site() as site:
        yield Folder(site)


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[Registry]:
    async with Registry(tmp_path, users=[("jo", PASSWORD)]) as registry:
        yield registry


def docker_config(registry: Registry, *, user: str = "jo", password: str = PASSWORD) -> str:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    return json.dumps({"auths": {f"http://{registry.address}/v2/": {"auth": auth}}})


def pull_secret(registry: Registry, name: str = "pull", *, user: str = "jo", password: str = PASSWORD) -> str:
    config = docker_config(registry, user=user, password=password)
    return (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\ntype: kubernetes.io/dockerconfigjson\n"
        f"stringData: {{.dockerconfigjson: {json.dumps(config)}}}\n"
    )


def pod(registry: Registry, *secrets: str, name: str = "web", image: str = "team/app:1") -> str:
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  imagePullSecrets: {json.dumps([{"name": secret} for secret in secrets])}
  containers: [{{name: main, image: "{registry.address}/{image}", command: [echo, hello]}}]
"""


async def test_the_pods_secret_opens_the_registry(folder: Folder, registry: Registry) -> None:
    folder.put("secret", pull_secret(registry))
    folder.put("pod", pod(registry, "pull"))
    assert await folder.finished() == ["hello"]
    assert set(registry.askers) <= {"", "jo"}


async def test_a_pod_waits_until_its_secret_is_there_and_right(folder: Folder, registry: Registry) -> None:
    folder.put("pod", pod(registry, "pull"))
    await folder.event(
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (pull); attempting to pull the image may not succeed.",
    )
    await folder.waits("ErrImagePull", REFUSED)
    await folder.waits("ImagePullBackOff", "ErrImagePull: ")
    folder.put("secret", pull_secret(registry, user="mary"))

    async def mary_has_asked() -> bool:
        return "mary" in registry.askers

    await folder.site.until("the wrong login is tried at once", mary_has_asked)
    await folder.waits("ImagePullBackOff", REFUSED)
    folder.put("secret", pull_secret(registry))
    assert await folder.finished() == ["hello"]


async def test_several_logins_are_tried_and_the_nodes_come_last(folder: Folder, registry: Registry) -> None:
    (folder.site.node.base / "minikubelet/config.json").write_text(docker_config(registry))
    folder.put("secret", pull_secret(registry, user="mary") + "---\n" + pull_secret(registry, "ann", user="ann"))
    folder.put("pod", pod(registry, "pull", "ann"))
    assert await folder.finished() == ["hello"]
    askers = [user for user in registry.askers if user]
    assert list(dict.fromkeys(askers)) == ["mary", "ann", "jo"]


async def test_each_pod_with_policy_always_shows_its_own_credentials(folder: Folder, registry: Registry) -> None:
    folder.put("secret", pull_secret(registry))
    folder.put("pod", pod(registry, "pull", image="team/app"))
    assert await folder.finished() == ["hello"]
    folder.take("pod")
    await folder.site.gone()
    folder.put("other", pod(registry, name="other", image="team/app"))
    await folder.waits("ErrImagePull", REFUSED)
    async with connect(folder.site.node.containerd.socket) as channel:
        assert await ImageService(channel).status(f"{registry.address}/team/app:latest") is not None
