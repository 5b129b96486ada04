"""What a process sees of volumes on a real containerd, and what it can never reach (VO-2 to VO-14, MT-2 to MT-9)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.configuration.folder import Folder, config_map, pod, secret
from tests.support.site import private_site

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(120)]

FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
ALL_KINDS = """
volumes:
- {name: c, configMap: {name: c, items: [{key: k, path: deep/er/file}, {key: k, path: exec, mode: 0755}]}}
- {name: s, secret: {secretName: s, defaultMode: 0400}}
- {name: d, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
- {name: e, emptyDir: {}}
- name: p
  projected:
    sources:
    - {configMap: {name: c}}
    - {secret: {name: s, items: [{key: pw, path: secret/pw, mode: 0400}]}}
    - downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: main, resource: limits.cpu, divisor: 1m}}]}
    - {configMap: {name: absent, optional: true}}
"""


@pytest.fixture
async def folder() -> AsyncIterator[Folder]:
    async with private_site() as site:
        yield Folder(site)


async def test_a_process_finds_files_with_their_modes_owners_and_file_systems(folder: Folder) -> None:
    """VO-7 to VO-12, MT-2."""
    script = (
        "for f in /c/deep/er/file /c/exec /s/pw /d/labels /p/k /p/secret/pw /p/cpu; do "
        'echo "$f $(stat -L -c %a:%g $f) $(cat $f | tr "\\n" "|")"; done; '
        "for d in c s d p; do grep \" /$d \" /proc/mounts | cut -d' ' -f2-4 | cut -d, -f1; touch /$d/new; done; "
        "echo through $(readlink /c/exec) $(readlink /c/deep); touch /p/inner/fine && echo inner is writable"
    )
    fields = """
resources: {limits: {cpu: 250m}}
volumeMounts:
- {name: c, mountPath: /c}
- {name: s, mountPath: /s}
- {name: d, mountPath: /d}
- {name: p, mountPath: /p}
- {name: e, mountPath: /p/inner}
"""
    folder.put("objects", config_map("c", k="text") + secret("s", pw="hunter2"))
    folder.put("pod", pod(script, fields, f"securityContext: {{fsGroup: 3000}}\n{ALL_KINDS}"))
    printed = await folder.finished()
    assert [line for line in printed if not line.startswith(("touch:", "/dev"))] == [
        "/c/deep/er/file 644:3000 text",
        "/c/exec 755:3000 text",
        "/s/pw 440:3000 hunter2",
        '/d/labels 644:3000 app="shop"|tier="front"',
        "/p/k 644:3000 text",
        "/p/secret/pw 440:3000 hunter2",
        "/p/cpu 644:3000 250",
        "/c ext4 ro" if "/c ext4 ro" in printed else next(line for line in printed if line.startswith("/c ")),
        "/s tmpfs ro",
        "/d tmpfs ro",
        "/p tmpfs ro",
        "through ..data/exec ..data/deep",
        "inner is writable",
    ]
    assert sum("Read-only file system" in line for line in printed) == 4


async def test_a_pod_waits_for_its_volumes_objects_and_starts_by_itself(folder: Folder) -> None:
    """VO-2; the last thing that was missing starts it."""
    mounts = "volumeMounts: [{name: c, mountPath: /c}, {name: s, mountPath: /s}]"
    volumes = "volumes: [{name: c, configMap: {name: c}}, {name: s, secret: {secretName: s}}]"
    folder.put("pod", pod("cat /c/k /s/pw", mounts, volumes))
    await folder.event("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "c" not found')
    await folder.waits(
        "ContainerCreating", 'waiting for the pod sandbox: MountVolume.SetUp failed for volume "c" : configmap "c"'
    )
    folder.put("c", config_map("c", k="one"))
    await folder.event("FailedMount", 'MountVolume.SetUp failed for volume "s" : secret "s" not found')
    assert not await folder.site.cri.list_pod_sandboxes(), "before the volumes there is no sandbox"
    await asyncio.sleep(2)  # the next try of its own is 2 seconds away by now
    began = asyncio.get_running_loop().time()
    folder.put("s", secret("s", pw="two"))
    assert await folder.finished() == ["onetwo"]
    assert asyncio.get_running_loop().time() - began < 2


async def test_an_unmounted_volume_or_an_optional_one_holds_up_nothing(folder: Folder) -> None:
    """VO-2, VO-8."""
    mounts = "volumeMounts: [{name: o, mountPath: /o}]"
    volumes = "volumes: [{name: u, configMap: {name: absent}}, {name: o, secret: {secretName: absent, optional: true}}]"
    folder.put("pod", pod("ls /o; echo none", mounts, volumes))
    assert await folder.finished() == ["none"]


async def test_files_follow_their_objects_at_once_and_a_sub_path_never(folder: Folder) -> None:
    """VO-13, MT-9; also what changed while the daemon was away, without a restart of the container."""
    script = (
        "last=; trap 'exit 0' TERM; while :; do now=\"$(cat /p/k) $(cat /p/pw) $(cat /one)\"; "
        '[ "$now" = "$last" ] || echo "$now"; last=$now; sleep 0.05; done'
    )
    fields = "volumeMounts: [{name: p, mountPath: /p}, {name: c, mountPath: /one, subPath: k}]"
    spec = """
volumes:
- {name: c, configMap: {name: c}}
- {name: p, projected: {sources: [{configMap: {name: c}}, {secret: {name: s}}]}}
"""
    folder.put("objects", config_map("c", k="one") + secret("s", pw="first"))
    folder.put("pod", pod(script, fields, spec))
    await folder.prints("one first one")
    folder.put("objects", config_map("c", k="two") + secret("s", pw="second"))
    await folder.prints("two second one", within=5)
    await asyncio.to_thread(folder.site.node.stop, signal.SIGKILL)
    folder.put("objects", config_map("c", k="three") + secret("s", pw="second"))
    await asyncio.to_thread(folder.site.node.start)
    await folder.prints("three second one", within=10)
    assert folder.printed() == ["one first one", "two second one", "three second one"], "never a mixture of one volume"


async def test_what_goes_is_told_and_the_files_stay(folder: Folder) -> None:
    folder.put("objects", config_map("c", k="one"))
    fields = "volumeMounts: [{name: c, mountPath: /c}]"
    folder.put("pod", pod(f"echo up; {FOREVER}", fields, "volumes: [{name: c, configMap: {name: c}}]"))
    await folder.prints("up")
    folder.take("objects")
    await folder.event("FailedMount", 'MountVolume.SetUp failed for volume "c" : configmap "c" not found')
    (pod_uid,) = [it["metadata"]["uid"] for it in await folder.site.pods()]
    file = folder.site.node.base / f"minikubelet/pods/{pod_uid}/volumes/kubernetes.io~configmap/c/k"
    assert file.read_text() == "one"


async def test_nothing_of_the_volumes_is_left_when_the_pod_has_gone(folder: Folder) -> None:
    """VO-14."""
    fields = "volumeMounts: [" + ", ".join(f"{{name: {name}, mountPath: /{name}}}" for name in "csdep") + "]"
    fields = fields.replace("mountPath: /e}", "mountPath: /e, subPath: a/b}")
    folder.put("objects", config_map("c", k="text") + secret("s", pw="hunter2"))
    folder.put("pod", pod(f"echo up; {FOREVER}", fields, ALL_KINDS))
    await folder.prints("up")
    folder.take("pod")
    await folder.site.gone()
    state = folder.site.node.base / "minikubelet"
    assert list((state / "pods").iterdir()) == []
    assert str(state) not in Path("/proc/self/mountinfo").read_text()


async def test_a_sub_path_is_a_part_of_the_volume(folder: Folder) -> None:
    """MT-8, MT-9."""
    host = folder.site.journal
    (host / "file").write_text("the file\n")
    (host / "target").mkdir()
    (host / "link").symlink_to("target")
    fields = """
env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
volumeMounts:
- {name: h, mountPath: /one, subPath: file, readOnly: true}
- {name: h, mountPath: /mine, subPathExpr: pods/$(POD)}
- {name: h, mountPath: /link, subPath: link}
"""
    script = "cat /one; echo x >/one; echo mine >/mine/file; echo linked >/link/file"
    folder.put("pod", pod(script, fields, f"volumes: [{{name: h, hostPath: {{path: {host}}}}}]"))
    printed = await folder.finished()
    assert printed[0] == "the file"
    assert "Read-only file system" in printed[1]
    assert (host / "pods/web/file").read_text() == "mine\n"
    assert (host / "target/file").read_text() == "linked\n"


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ("subPath: evil/x", 'failed to create subPath directory for volumeMount "h" of container "main"'),
        ("subPath: evil", 'failed to prepare subPath for volumeMount "h" of container "main"'),
        ("subPathExpr: a/$(NONE)/$(EMPTY)", "missing value for EMPTY, NONE"),
    ],
)
async def test_a_mount_that_cannot_be_is_a_configuration_error(folder: Folder, mount: str, message: str) -> None:
    """MT-8, MT-9."""
    host = folder.site.journal
    (host / "evil").symlink_to("/etc")
    fields = f"env: [{{name: EMPTY}}]\nvolumeMounts: [{{name: h, mountPath: /h, {mount}}}]"
    folder.put("pod", pod("true", fields, f"volumes: [{{name: h, hostPath: {{path: {host}}}}}]"))
    await folder.waits("CreateContainerConfigError", message)


async def test_a_hostile_container_swaps_directories_for_links_and_gains_nothing(folder: Folder) -> None:
    """MT-9: a sidecar swaps `a` of the shared volume with a link to the host's own, while mains are given `a`."""
    outside = folder.site.node.base / "outside"
    outside.mkdir()
    (outside / "secret").write_text("the host's own\n")
    swap = f"mkdir -p /v/a; echo inside >/v/a/secret; ln -s {outside} /v/evil; touch /v/ready; "
    swap += "while :; do mv -T /v/a /v/good; mv -T /v/evil /v/a; mv -T /v/a /v/evil; mv -T /v/good /v/a; done"
    mains = "".join(
        f"""  - name: m{number}
    image: busybox:1.36
    command: [sh, -c, "cat /part/secret; echo {number} >/part/from-{number}; echo end"]
    volumeMounts: [{{name: v, mountPath: /part, subPath: a}}]
"""
        for number in range(8)
    )
    folder.put(
        "pod",
        f"""apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: evil
    image: busybox:1.36
    restartPolicy: Always
    command: [sh, -c, {swap!r}]
    volumeMounts: [{{name: v, mountPath: /v}}]
    startupProbe: {{exec: {{command: [cat, /v/ready]}}, periodSeconds: 1, failureThreshold: 60}}
  containers:
{mains}  volumes: [{{name: v, emptyDir: {{}}}}]
""",
    )

    async def ended() -> bool:  # well, or because what was mounted is no more: it hurts only itself
        return [pod["status"]["phase"] in ("Succeeded", "Failed") for pod in await folder.site.pods()] == [True]

    await folder.site.until("every main has ended", ended, within=90)
    printed = [line for number in range(8) for line in folder.printed(f"m{number}")]
    assert "end" in printed
    assert "the host's own" not in printed
    assert [entry.name for entry in outside.iterdir()] == ["secret"], "and nothing was written there"
    assert (outside / "secret").read_text() == "the host's own\n"


async def test_a_hostile_container_cannot_change_what_is_projected(folder: Folder) -> None:
    """Neither by writing nor by remounting, nor through a place where it may write."""
    script = (
        "for what in 'rm -rf /p/..data' 'mv /p/k /p/x' 'ln -s /etc/passwd /p/y' 'mkdir /p/z' 'mount -o remount,rw /p' "
        "'umount /p' 'chmod 777 /p' 'sh -c \"echo x >/p/k\"' 'ln -sfn /etc /p/inner'; do "
        'eval $what && echo "did: $what"; done 2>/dev/null; ls /p/inner; cat /p/k'
    )
    fields = "volumeMounts: [{name: p, mountPath: /p}, {name: e, mountPath: /p/inner}]"
    folder.put("objects", config_map("c", k="text") + secret("s", pw="hunter2"))
    fields += "\nresources: {limits: {cpu: 250m}}"
    folder.put("pod", pod(script, fields, ALL_KINDS))
    printed = await folder.finished()
    assert printed[-1] == "text"
    assert [line for line in printed if line.startswith("did:")] == ["did: ln -sfn /etc /p/inner"]
    folder.put("objects", config_map("c", k="text") + secret("s", pw="other"))


@contextlib.contextmanager
def shared_mount(path: Path) -> Iterator[None]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], check=True)
    subprocess.run(["mount", "--make-rshared", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-R", str(path)], check=True)


async def test_mounts_of_the_host_reach_a_container_and_its_mounts_the_host_if_it_may(folder: Folder) -> None:
    """MT-2: mountPropagation."""
    host = folder.site.node.base / "shared"
    with shared_mount(host):
        (host / "from-host").mkdir()
        (host / "from-pod").mkdir()
        script = (
            "mount -t tmpfs tmpfs /both/from-pod && touch /both/from-pod/made; "
            "until [ -e /down/from-host/file ]; do sleep 0.1; done; ls /none/from-host; echo seen; " + FOREVER
        )
        fields = """
securityContext: {privileged: true}
volumeMounts:
- {name: h, mountPath: /none}
- {name: h, mountPath: /down, mountPropagation: HostToContainer}
- {name: h, mountPath: /both, mountPropagation: Bidirectional}
"""
        folder.put("pod", pod(script, fields, f"volumes: [{{name: h, hostPath: {{path: {host}}}}}]"))

        async def made() -> bool:
            return (host / "from-pod/made").exists()

        await folder.site.until("the host sees the pod's mount", made, within=30)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(host / "from-host")], check=True)
        (host / "from-host/file").touch()
        await folder.prints("seen")
        assert folder.printed() == ["seen"], "a private mount does not see it"
        folder.take("pod")
        await folder.site.gone()


async def test_a_claims_content_outlives_the_pods_that_use_it(folder: Folder) -> None:  # 14/claims
    script = "cat /data/log 2>/dev/null; echo $RUN >>/data/log; echo ran"
    fields = "env: [{name: RUN, value: first}]\nvolumeMounts: [{name: d, mountPath: /data, subPath: app}]"
    volumes = "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]"
    folder.put("pod", pod(script, fields, volumes))
    await folder.event("FailedMount", 'persistentvolumeclaim "data" not found')
    folder.put(
        "claim",
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    )
    assert await folder.finished() == ["ran"]
    folder.put("pod", pod(script, fields.replace("first", "second"), volumes))
    await folder.prints("first")
    assert (await folder.finished())[-2:] == ["first", "ran"]
    folder.take("pod")
    folder.take("claim")
    await folder.site.gone()
    assert (folder.site.node.base / "minikubelet/volumes/default/data/app/log").read_text() == "first\nsecond\n"


async def is_at_least(folder: Folder, *wanted: int) -> bool:
    version = (await folder.site.cri.version()).runtime_version.removeprefix("v")
    return tuple(map(int, version.split(".")[:2])) >= wanted


async def test_a_mount_is_read_only_all_the_way_down_where_the_runtime_can(folder: Folder) -> None:
    """MT-3."""
    host = folder.site.journal
    (host / "below").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(host / "below")], check=True)
    try:
        fields = """
volumeMounts:
- {name: h, mountPath: /top, readOnly: true}
- {name: h, mountPath: /if, readOnly: true, recursiveReadOnly: IfPossible}
- {name: h, mountPath: /all, readOnly: true, recursiveReadOnly: Enabled}
"""
        script = "for d in top if all; do touch /$d/below/new 2>/dev/null && echo wrote to $d; done; echo end"
        folder.put("pod", pod(script, fields, f"volumes: [{{name: h, hostPath: {{path: {host}}}}}]"))
        if await is_at_least(folder, 2, 0):
            assert await folder.finished() == ["wrote to top", "end"]
        else:
            text = 'volume "h" requested recursive read-only mode, but it is not supported by the runtime'
            await folder.waits("CreateContainerConfigError", f"failed to resolve recursive read-only mode: {text}")
        folder.take("pod")
        await folder.site.gone()
    finally:
        subprocess.run(["umount", str(host / "below")], check=True)


async def test_an_image_is_a_volume_where_the_runtime_has_them(folder: Folder) -> None:
    fields = "volumeMounts: [{name: i, mountPath: /image}]"
    volumes = "volumes: [{name: i, image: {reference: 'busybox:1.36'}}]"
    folder.put("pod", pod("ls -d /image/bin/sh; touch /image/new || true", fields, volumes))
    if await is_at_least(folder, 2, 1):
        printed = await folder.finished()
        assert printed[0] == "/image/bin/sh"
        assert "Read-only file system" in printed[1]
    else:
        await folder.waits("CreateContainerConfigError", 'volume "i" is an image, which containerd can mount from')


async def test_what_lies_in_memory_is_no_larger_than_the_pod_may_be(folder: Folder) -> None:
    """VO-4, VO-7."""
    fields = """
resources: {limits: {memory: 48Mi, cpu: 1}}
volumeMounts: [{name: m, mountPath: /m}, {name: l, mountPath: /l}, {name: d, mountPath: /d}]
"""
    volumes = """
volumes:
- {name: m, emptyDir: {medium: Memory}}
- {name: l, emptyDir: {medium: Memory, sizeLimit: 8Mi}}
- {name: d, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
"""
    folder.put("pod", pod('for d in m l d; do grep -o " /$d tmpfs.*size=[0-9]*k" /proc/mounts; done', fields, volumes))
    printed = [line.split()[0] + line.rpartition("=")[2] for line in await folder.finished()]
    assert printed == ["/m49152k", "/l8192k", "/d49152k"]
