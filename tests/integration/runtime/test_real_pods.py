"""What a container sees of what the mapping asked for, and the calls of the CRI client, on a real containerd."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from minikubelet.runtime import adopt
from minikubelet.runtime.errors import (
    ContainerRuntimeError,
    DeadlineExceededError,
    NameReservedError,
    NotFoundError,
)
from minikubelet.runtime.mapping import (
    ContainerInputs,
    ImageFacts,
    cgroup_parent,
    container_config,
    hosts_file,
    sandbox_config,
)
from minikubelet.runtime.pb import cri_pb2
from tests.integration.runtime.conftest import Bench, eventually, sh

pytestmark = pytest.mark.containerd


async def _ask(bench: Bench, container: str, script: str) -> str:
    answer = await bench.cri.exec_sync(container, ["sh", "-c", script], timeout=10)
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout.decode()


async def test_names_files_environment_and_confinement_arrive_in_the_container(bench: Bench) -> None:
    of = sh(
        "exec sleep 60",
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}],
        workingDir="/tmp",
        resources={"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
    )
    pod = bench.pod(of, hostname="myhost", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["alias"]}])
    sandbox = await bench.sandbox(pod)
    ip = bench.state.observed(pod.metadata.uid).sandboxes[0].ips[0]
    hosts = bench.root / "etc-hosts"
    hosts.write_text(hosts_file(pod, bench.node, pod_ips=(ip,), node_hosts=""))
    container = await bench.run(pod, sandbox, hosts_file=str(hosts))
    assert await _ask(bench, container, "hostname; echo $A$B; pwd") == "myhost\n112\n/tmp\n"
    assert await _ask(bench, container, "cat /etc/resolv.conf") == "search lan\nnameserver 10.9.8.7\n"
    assert f"{ip}\tmyhost\n" in await _ask(bench, container, "cat /etc/hosts")
    assert "1.2.3.4\talias\n" in await _ask(bench, container, "cat /etc/hosts")
    assert (await _ask(bench, container, "ip -4 -o addr show eth0")).split()[3] == f"{ip}/24"
    assert (await _ask(bench, container, "grep Seccomp: /proc/1/status")).split() == ["Seccomp:", "0"]
    assert await _ask(bench, container, "cat /proc/keys /proc/timer_list | wc -c") == "0\n"
    assert "Read-only" in await _ask(bench, container, "echo 1 2>&1 > /proc/sys/kernel/domainname || true")
    parent = cgroup_parent(pod, bench.node)
    assert f"{parent}/{container}" in await _ask(bench, container, "cat /proc/1/cgroup") or _private_cgroup()
    if not _private_cgroup():
        memory = Path(f"/sys/fs/cgroup/memory{parent}/{container}")
        assert (memory / "memory.limit_in_bytes").read_text() == f"{64 << 20}\n"
        assert Path(f"/sys/fs/cgroup/cpu{parent}/{container}/cpu.shares").read_text() == "102\n"
        assert Path(f"/sys/fs/cgroup/cpu{parent}/{container}/cpu.cfs_quota_us").read_text() == "20000\n"


def _private_cgroup() -> bool:
    """On cgroup v2 a container sees its own cgroup as the root."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


async def test_volumes_are_mounted_read_only_where_asked(bench: Bench) -> None:
    data = bench.root / "data"
    data.mkdir()
    (data / "file").write_text("hello")
    mounts = [{"name": "d", "mountPath": "/rw"}, {"name": "d", "mountPath": "/ro", "readOnly": True}]
    pod = bench.pod(sh("exec sleep 60", volumeMounts=mounts), volumes=[{"name": "d", "emptyDir": {}}])
    container = await bench.run(pod, await bench.sandbox(pod), volumes={"d": str(data)})
    assert await _ask(bench, container, "cat /rw/file /ro/file") == "hellohello"
    assert await _ask(bench, container, "touch /rw/new && ! touch /ro/no 2>/dev/null && ls /ro") == "file\nnew\n"


async def test_logs_lie_where_the_kubelet_puts_them(bench: Bench) -> None:
    pod = bench.pod(sh("echo out; echo err >&2; sleep 60"))
    container = await bench.run(pod, await bench.sandbox(pod), restart_count=3)
    log = bench.log(pod, restart_count=3)

    async def is_written() -> bool:
        return log.exists() and log.read_text().count("\n") == 2

    await eventually(is_written)
    lines = sorted(line.split(" ", 1)[1] for line in log.read_text().splitlines())
    assert lines == ["stderr F err", "stdout F out"]
    rotated = log.rename(f"{log}.1")
    await bench.cri.reopen_container_log(container)
    assert log.exists()
    assert rotated.exists()


async def test_a_host_network_pod_has_the_hosts_addresses_and_no_own(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"), hostNetwork=True)
    container = await bench.run(pod, await bench.sandbox(pod))
    observed = bench.state.observed(pod.metadata.uid).sandboxes[0]
    assert observed.host_network
    assert observed.ips == ()
    assert await _ask(bench, container, "hostname") == f"{os.uname().nodename}\n"


async def test_a_host_port_of_a_sidecar_is_answered(bench: Bench) -> None:
    port = 20000 + os.getpid() % 10000
    ports = [{"containerPort": 8080, "hostPort": port}]
    script = "mkdir -p /www && echo hi > /www/index.html && exec httpd -f -p 8080 -h /www"
    sidecar = sh(script, name="side", ports=ports, restartPolicy="Always")
    pod = bench.pod(sidecar)
    await bench.run(pod, await bench.sandbox(pod))

    async def is_answered() -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.endswith(b"hi\n")

    await eventually(is_answered)


async def test_exec_gives_code_and_output(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    container = await bench.run(pod, await bench.sandbox(pod))
    answer = await bench.cri.exec_sync(container, ["sh", "-c", "echo out; echo err >&2; exit 4"])
    assert (answer.exit_code, answer.stdout, answer.stderr) == (4, b"out\n", b"err\n")
    with pytest.raises(ContainerRuntimeError, match="executable file not found"):
        await bench.cri.exec_sync(container, ["nosuch"])


async def test_exec_that_takes_too_long_ends_with_a_deadline(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    container = await bench.run(pod, await bench.sandbox(pod))
    with pytest.raises(DeadlineExceededError):
        await bench.cri.exec_sync(container, ["sleep", "30"], timeout=1)
    began = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        # The child keeps the output open: the runtime would answer after 30 s only.
        await bench.cri.exec_sync(container, ["sh", "-c", "sleep 30; true"], timeout=1, patience=0.5)
    assert time.monotonic() - began < 10


async def test_stop_sends_the_signal_waits_and_kills(bench: Bench) -> None:
    trap = "trap 'echo term > /dev/termination-log; exit 5' TERM; echo set"
    pod = bench.pod(sh(f"{trap}; while :; do sleep 0.1; done"))
    sandbox = await bench.sandbox(pod)
    container = await bench.run(pod, sandbox)

    async def trap_is_set() -> bool:
        return bench.log(pod).read_text().endswith(" set\n")

    await eventually(trap_is_set)
    await bench.cri.stop_container(container, timeout=10)
    assert (await bench.cri.container_status(container)).exit_code == 5
    stubborn = bench.pod(sh("trap '' TERM; while :; do sleep 0.1; done"), uid=f"{pod.metadata.uid}-2")
    container = await bench.run(stubborn, await bench.sandbox(stubborn))
    slow = asyncio.create_task(bench.cri.stop_container(container, timeout=60), name="stop slowly")
    await asyncio.sleep(0.3)
    await bench.cri.stop_container(container, timeout=0)  # a shorter one takes over
    async with asyncio.timeout(5):
        await slow
    assert (await bench.cri.container_status(container)).exit_code == 137


async def test_unknown_ids_are_no_trouble_to_stop_and_remove(bench: Bench) -> None:
    unknown = "0" * 64
    await bench.cri.stop_container(unknown, timeout=0)
    await bench.cri.remove_container(unknown)
    await bench.cri.stop_pod_sandbox(unknown)
    await bench.cri.remove_pod_sandbox(unknown)
    with pytest.raises(NotFoundError):
        await bench.cri.container_status(unknown)
    with pytest.raises(NotFoundError):
        await bench.cri.pod_sandbox_status(unknown)


async def test_a_container_that_was_made_but_never_started_is_replaced(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    sandbox = await bench.sandbox(pod)
    left = await bench.create(pod, sandbox)
    again = await bench.create(pod, sandbox)
    assert again != left
    await bench.start(again)
    with pytest.raises(NameReservedError) as caught:
        await bench.create(pod, sandbox)
    assert caught.value.holder == again


async def test_a_sandbox_is_taken_over_if_it_is_whole_and_replaced_if_it_is_not(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    first = await bench.sandbox(pod)
    assert await bench.sandbox(pod) == first
    await bench.cri.stop_pod_sandbox(first)
    second = await bench.sandbox(pod)
    assert second != first
    assert [s.id for s in bench.state.observed(pod.metadata.uid).sandboxes] == [second]


async def test_a_cut_run_sandbox_can_be_run_again(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    config, _ = sandbox_config(pod, bench.node, attempt=0, resolv_conf="")
    cut = asyncio.create_task(bench.cri.run_pod_sandbox(config), name="run a sandbox")
    await asyncio.sleep(0.05)
    cut.cancel()
    assert await bench.sandbox(pod)


async def test_a_broken_network_is_told_in_the_runtimes_words_and_leaves_no_trouble(own_bench: Bench) -> None:
    bench = own_bench
    pod = bench.pod(sh("exec sleep 60"))
    await asyncio.to_thread(bench.daemon.write_cni, extra={"type": "nosuch"})
    for attempt in range(2):
        with pytest.raises(ContainerRuntimeError, match='failed to find plugin "nosuch"'):
            await bench.sandbox(pod, attempt=attempt)
    await asyncio.to_thread(bench.daemon.write_cni)
    assert await bench.sandbox(pod)
    await bench.state.relist()
    ready = [s for s in bench.state.observed(pod.metadata.uid).sandboxes if s.ready]
    assert len(ready) == 1


async def test_the_image_s_user_is_used_and_named(bench: Bench) -> None:
    facts = ImageFacts(ref="busybox:1.36", uid=1000)
    pod = bench.pod(sh("exec sleep 60"))
    sandbox = await bench.sandbox(pod)
    config = container_config(pod, pod.spec.containers[0], bench.node, ContainerInputs(restart_count=0, image=facts))
    within, _ = sandbox_config(pod, bench.node, attempt=0, resolv_conf="")
    container = await adopt.create_container(
        bench.cri, sandbox, config, sandbox_config=within, removed=bench.state.note_removed
    )
    await bench.cri.start_container(container)
    assert re.match(r"uid=1000\(app\)", await _ask(bench, container, "id"))


async def test_streams_are_given_as_urls_on_loopback(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    sandbox = await bench.sandbox(pod)
    container = await bench.run(pod, sandbox)
    urls = [
        await bench.cri.exec_url(container, ["true"]),
        await bench.cri.attach_url(container),
        await bench.cri.port_forward_url(sandbox, 80),
    ]
    kinds = [re.fullmatch(r"http://127\.0\.0\.1:\d+/(\w+)/[\w-]+", url) for url in urls]
    assert [kind and kind[1] for kind in kinds] == ["exec", "attach", "portforward"]


async def test_figures_of_a_running_container(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    sandbox = await bench.sandbox(pod)
    container = await bench.run(pod, sandbox)
    stats = {s.attributes.id: s for s in await bench.cri.list_container_stats()}
    assert stats[container].memory.working_set_bytes.value > 0
    assert (await bench.cri.pod_sandbox_stats(sandbox)).linux.cpu.usage_core_nano_seconds.value > 0


async def test_resources_of_a_running_container_can_be_changed(bench: Bench) -> None:
    limits = {"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}
    pod = bench.pod(sh("exec sleep 60", resources=limits))
    container = await bench.run(pod, await bench.sandbox(pod))
    wanted = cri_pb2.LinuxContainerResources(memory_limit_in_bytes=80 << 20, memory_swap_limit_in_bytes=80 << 20)
    await bench.cri.update_container_resources(container, wanted)
    status = await bench.cri.container_status(container)
    assert status.resources.linux.memory_limit_in_bytes == 80 << 20
