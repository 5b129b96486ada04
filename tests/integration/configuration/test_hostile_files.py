"""A container that is root in its own world turns every file that the daemon reads for it into something else (MT-9).

What it can reach of the host is what its manifest mounts; the daemon, which reads its last words, its log and its
volumes, must not be made to reach further, nor to hang.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.configuration.folder import Folder
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(180)]

PRECIOUS = "the host's own"


@pytest.fixture
async def folder() -> AsyncIterator[Folder]:
    async with private_site() as site:
        yield Folder(site)


def outside(folder: Folder) -> str:
    """A folder of the host with a secret that no container has mounted."""
    path = folder.site.node.base / "outside"
    path.mkdir()
    (path / "secret").write_text(f"{PRECIOUS}\n")
    return str(path)


def manifest(
    *containers: dict[str, Any], volumes: list[dict[str, Any]], init: list[dict[str, Any]] | None = None
) -> str:
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "volumes": volumes,
        "initContainers": init or [],
        "containers": list(containers),
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})


def sh(name: str, script: str, *mounts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "busybox:1.36",
        "command": ["sh", "-c", script],
        "volumeMounts": list(mounts),
        **fields,
    }


async def ended(folder: Folder) -> dict[str, dict[str, Any]]:
    """How each main ended, when all have: the terminated state by name."""
    found: dict[str, dict[str, Any]] = {}

    async def all_ended() -> bool:
        pods = await folder.site.pods()
        statuses = pods[0]["status"].get("containerStatuses", []) if pods else []
        found.update({it["name"]: it["state"].get("terminated", {}) for it in statuses})
        return bool(found) and all(found.values())

    await folder.site.until("every container has ended", all_ended, within=60)
    return found


ON_TOP = {"mountPath": "/dev/termination-log"}


async def test_tm_1_the_last_words_are_read_from_the_containers_own_file_and_no_other(folder: Folder) -> None:
    """Although another mount lies at the same path, which the container, its neighbour or the host has prepared."""
    away = outside(folder)
    host = folder.site.node.base / "shared"
    host.mkdir()
    (host / "words").write_text("before\n")
    prepare = sh("prepare", "mkfifo /e/fifo; mknod /e/disk b 7 0; echo x >/e/plain", {"name": "e", "mountPath": "/e"})
    last_words = "echo mine >/dev/termination-log; exit 3"
    above = {"name": "h", "mountPath": "/h"}
    mains = [
        sh("swap", f"rm /h/words; ln -s {away}/secret /h/words", above),
        sh("link", f"until [ -h /h/words ]; do sleep 0.1; done; {last_words}", {"name": "f", **ON_TOP}, above),
        *(sh(kind, last_words, {"name": "e", **ON_TOP, "subPath": kind}) for kind in ("fifo", "disk", "plain")),
    ]
    volumes = [
        {"name": "e", "emptyDir": {}},
        {"name": "f", "hostPath": {"path": str(host / "words"), "type": "File"}},
        {"name": "h", "hostPath": {"path": str(host)}},
    ]
    folder.put("pod", manifest(*mains, volumes=volumes, init=[prepare]))
    states = await ended(folder)
    assert (host / "words").readlink() == Path(away, "secret")
    assert states["link"].get("message", "") in ("", "mine\n"), "a mount whose place was removed is gone with it"
    assert {kind: states[kind]["message"] for kind in ("fifo", "disk", "plain")} == dict.fromkeys(
        ("fifo", "disk", "plain"), "mine\n"
    )


async def test_tm_2_a_log_that_became_a_link_or_a_pipe_is_not_read(folder: Folder) -> None:
    """Of a container that has the host's folder of logs mounted, as log collectors do."""
    away = outside(folder)
    logs = {"name": "l", "mountPath": "/logs"}
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    mains = [
        sh("link", f"cd /logs/*/link; rm 0.log; ln -s {away}/secret 0.log; exit 3", logs, **policy),
        sh("pipe", "cd /logs/*/pipe; rm 0.log; mkfifo 0.log; exit 3", logs, **policy),
    ]
    folder.put("pod", manifest(*mains, volumes=[{"name": "l", "hostPath": {"path": str(folder.site.node.logs)}}]))
    for name, state in (await ended(folder)).items():
        assert PRECIOUS not in state["message"]
        assert state["message"].startswith("Error on reading termination message from logs: "), name


async def test_mt_4_what_a_container_makes_of_its_hosts_file_is_undone_and_the_hosts_stays(folder: Folder) -> None:
    before = Path("/etc/hosts").read_text()
    script = (
        "cat /etc/hosts; for what in 'rm /etc/hosts' 'mv /etc/hosts /etc/old' 'ln -sfn /proc/1/environ /etc/hosts' "
        "'umount /etc/hosts'; do eval $what 2>/dev/null && echo did: $what; done; "
        "echo 6.6.6.6 evil >/etc/hosts; chmod 000 /etc/hosts; chown 7:7 /etc/hosts; exit 3"
    )
    spoil = sh("spoil", script)
    text = manifest(
        sh("main", "cat /etc/hosts; stat -c %a:%u /etc/hosts"), volumes=[], init=[spoil, sh("again", "true")]
    )
    folder.put("pod", text.replace("exit 3", "exit 0"))
    await ended(folder)
    spoiled, seen = folder.printed("spoil"), folder.printed("main")
    assert [*spoiled, "644:0"] == seen
    assert not [line for line in spoiled if line.startswith("did:")]
    assert Path("/etc/hosts").read_text() == before


async def test_vo_11_a_volume_is_given_to_the_group_before_its_containers_and_never_again(folder: Folder) -> None:
    """Neither for the next instance of a container nor by the next daemon: a link swapped in would be given away."""
    away = outside(folder)
    Path(away).chmod(0o700)
    script = (
        f"[ -h /e/link ] && stat -c %g:%a /e/own && exit 0; "
        f"mkdir /e/own; chmod 700 /e/own; chgrp 0 /e/own; ln -s {away} /e/link; "
        "until [ -e /e/go ]; do sleep 0.1; done; exit 1"
    )
    text = json.loads(manifest(sh("main", script, {"name": "e", "mountPath": "/e"}), volumes=[{"name": "e"}]))
    text["spec"] |= {"securityContext": {"fsGroup": 2000}, "restartPolicy": "OnFailure"}
    folder.put("pod", json.dumps(text))
    found: list[Path] = []

    async def linked() -> bool:
        found[:] = folder.site.node.base.glob("minikubelet/pods/*/volumes/kubernetes.io~empty-dir/e/link")
        return bool(found)

    await folder.site.until("the link is there", linked)
    await asyncio.to_thread(folder.site.node.stop, signal.SIGKILL)
    await asyncio.to_thread(folder.site.node.start)
    (found[0].parent / "go").touch()

    assert await folder.finished() == ["0:700"]
    assert (Path(away).stat().st_gid, Path(away).stat().st_mode & 0o777) == (0, 0o700)


async def test_vo_14_what_a_container_leaves_in_its_volumes_leads_nowhere_when_they_are_removed(folder: Folder) -> None:
    away = outside(folder)
    script = (
        f"cd /e; ln -s {away} dir; ln -s {away}/secret file; ln -s / root; ln -s . loop; mkfifo pipe; "
        "mknod disk b 7 0; mkdir -p $(yes d/ | head -n 500 | tr -d '\\n'); chmod 000 d; touch -- -rf ..data 'a\nb'; "
        f"ln -s {away} '..2026_01_01_00_00_00.1'; echo done"
    )
    volumes = [{"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    mains = [sh(name, script, {"name": name, "mountPath": "/e"}) for name in ("e", "m")]
    text = json.loads(manifest(*mains, volumes=volumes))
    text["spec"]["securityContext"] = {"fsGroup": 2000}
    folder.put("pod", json.dumps(text))
    await ended(folder)
    assert folder.printed("e") == folder.printed("m") == ["done"]
    folder.take("pod")
    await folder.site.gone()
    pods = folder.site.node.base / "minikubelet" / "pods"
    assert list(pods.iterdir()) == []
    assert [entry.name for entry in (folder.site.node.base / "outside").iterdir()] == ["secret"]
    assert (folder.site.node.base / "outside").stat().st_gid == 0


async def test_pipes_in_place_of_the_daemons_own_files_hold_up_nobody() -> None:
    """DNS-3, IM-8: as many pulls as there are threads, and a pod beside them."""
    async with private_site(start=False) as site:
        base, folder = site.node.base, Folder(site)
        resolv = base / "resolv.conf"
        os.mkfifo(resolv)
        (base / "minikubelet").mkdir(exist_ok=True)
        os.mkfifo(base / "minikubelet/config.json")
        site.node.configure(f"resolvConf: {resolv}\n")
        await asyncio.to_thread(site.node.start)
        folder.put("web", manifest(sh("main", "echo fine"), volumes=[]))
        told = f"Failed to create pod sandbox: resolvConf: {resolv}: it is not a regular file"

        async def is_told() -> bool:
            return told in json.dumps(await asyncio.to_thread(site.node.get, "/events"))

        await site.until("the pipe is told of", is_told)
        resolv.unlink()
        resolv.write_text("nameserver 192.0.2.1\n")
        for number in range(40):
            container = {**sh("main", ""), "image": f"127.0.0.1:9/none{number}:1"}
            waiting = json.loads(manifest(container, volumes=[]))
            waiting["metadata"]["name"] = f"waits{number}"
            folder.put(f"waits{number}", json.dumps(waiting))
        await folder.prints("fine")

        async def pulled_in_vain() -> bool:
            found = [it for it in await site.pods() if it["metadata"]["name"].startswith("waits")]
            return json.dumps(found).count("ImagePull") >= 40

        await site.until("every pull has come to its end", pulled_in_vain, within=120)
