"""What a process finds in its environment on a real containerd, and what a pod waits for (EV-1 to EV-9)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from tests.integration.configuration.folder import Folder, config_map, pod, secret
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]


@pytest.fixture
async def folder() -> AsyncIterator[Folder]:
    async with private_site() as site:
        yield Folder(site)


async def test_a_process_has_every_variable_that_its_manifest_names(folder: Folder) -> None:
    """D-6, 14/config-maps, 14/secrets: EV-1 to EV-6 and EV-8."""
    fields = """
envFrom:
- {configMapRef: {name: c}}
- {prefix: S_, secretRef: {name: s}}
- {configMapRef: {name: absent, optional: true}}
resources: {limits: {cpu: 200m, memory: 32Mi}}
env:
- {name: GREETING, value: "$(hello), $(S_pw)! $(NOT_YET) $$(hello)"}
- {name: NOT_YET, value: x}
- {name: PW, valueFrom: {secretKeyRef: {name: s, key: pw}}}
- {name: MISSING, valueFrom: {secretKeyRef: {name: s, key: absent, optional: true}}}
- {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
- {name: NODE_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
- {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
- {name: DISK, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage}}}
args: ["sh", "$(PW)", "$(hello)"]
"""
    folder.put("objects", config_map("c", hello="hi") + secret("s", pw="hunter2"))
    folder.put("pod", pod('tr "\\0" "\\n" </proc/self/environ; echo "args $*"', fields))
    printed = await folder.finished()
    found = dict(line.split("=", 1) for line in printed if "=" in line)
    (of,) = await folder.site.pods()
    expected = {
        "hello": "hi", "S_pw": "hunter2", "GREETING": "hi, hunter2! $(NOT_YET) $(hello)", "NOT_YET": "x",
        "PW": "hunter2", "POD": "web", "APP": "shop", "NODE_IP": of["status"]["hostIP"], "CPU": "200", "MEMORY": "32",
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected
    assert found["POD_IP"].startswith(f"{folder.site.node.containerd.subnet}.")
    stat = os.statvfs(folder.site.node.base)
    assert 0 < int(found["DISK"]) <= stat.f_frsize * stat.f_blocks, "EV-6"
    assert "args hunter2 hi" in printed
    added = set(found) - set(expected) - {"POD_IP", "DISK"}
    assert added <= {"PATH", "HOME", "HOSTNAME", "PWD", "SHLVL"}, "EV-8: nothing but the runtime's own"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("valueFrom: {configMapKeyRef: {name: late, key: k}}", 'configmap "late" not found'),
        ("valueFrom: {secretKeyRef: {name: late, key: k}}", 'secret "late" not found'),
    ],
)
async def test_a_container_waits_for_what_it_refers_to_and_starts_by_itself(
    folder: Folder, source: str, message: str
) -> None:
    folder.put("pod", pod('echo "$X"', f"env: [{{name: X, {source}}}]"))
    await folder.waits("CreateContainerConfigError", message)
    await folder.event("Failed", f"Error: {message}")
    began = asyncio.get_running_loop().time()
    folder.put("objects", config_map("late", k="now") + secret("late", k="now"))
    assert await folder.finished() == ["now"]
    assert asyncio.get_running_loop().time() - began < 5, "the retry alone would take 10 seconds"


async def test_a_key_that_comes_later_is_enough(folder: Folder) -> None:
    folder.put("objects", config_map("c", other="x"))
    folder.put("pod", pod('echo "$X"', "env: [{name: X, valueFrom: {configMapKeyRef: {name: c, key: k}}}]"))
    await folder.waits("CreateContainerConfigError", "couldn't find key k in ConfigMap default/c")
    folder.put("objects", config_map("c", k="now"))
    assert await folder.finished(within=8) == ["now"]


async def test_a_running_container_keeps_its_environment_and_its_next_instance_has_the_new_one(folder: Folder) -> None:
    """The volume beside it shows when the change has arrived."""
    script = (
        'echo "X=$X"; '
        "if [ ! -e /v/again ]; then touch /v/again; "
        "until grep -q new /c/k; do sleep 0.1; done; "
        'echo "still X=$X"; exit 1; fi; '
        "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    )
    fields = """
env: [{name: X, valueFrom: {configMapKeyRef: {name: c, key: k}}}]
volumeMounts: [{name: v, mountPath: /v}, {name: c, mountPath: /c}]
"""
    volumes = "volumes: [{name: v, emptyDir: {}}, {name: c, configMap: {name: c}}]"
    folder.put("objects", config_map("c", k="old"))
    folder.put("pod", pod(script, fields, volumes, restart="Always"))
    await folder.prints("X=old")
    folder.put("objects", config_map("c", k="new"))
    await folder.prints("X=new")
    assert folder.printed() == ["X=old", "still X=old", "X=new"]
