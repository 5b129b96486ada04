"""RuntimeState on a real containerd: exits, their messages, and what is known after an absence."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

import pytest

from minikubelet.lifecycle.records import ObservedContainer, RecordState
from minikubelet.runtime.errors import ContainerRuntimeError, RuntimeUnavailableError
from minikubelet.runtime.state import RuntimeState
from tests.integration.runtime.conftest import Bench, sh

pytestmark = pytest.mark.containerd


async def until(state: RuntimeState, condition: Callable[[], bool], *, seconds: float = 10) -> None:
    changed = asyncio.Event()
    end = state.subscribe(lambda _: changed.set())
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await changed.wait()
                changed.clear()
    finally:
        end()


async def exited(bench: Bench, uid: str) -> ObservedContainer:
    def has_exited() -> bool:
        record = bench.state.observed(uid).newest("main")
        return record is not None and record.state is RecordState.EXITED

    await until(bench.state, has_exited)
    record = bench.state.observed(uid).newest("main")
    assert record is not None
    return record


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (3, "Error")])
async def test_an_exit_is_known_with_code_and_reason(bench: Bench, code: int, reason: str) -> None:
    pod = bench.pod(sh(f"sleep 0.2; exit {code}"))
    await bench.run(pod, await bench.sandbox(pod))
    record = await exited(bench, pod.metadata.uid)
    assert (record.exit_code, record.reason) == (code, reason)
    assert record.finished_at >= record.started_at > 0


async def test_a_container_that_was_killed_has_137(bench: Bench) -> None:
    pod = bench.pod(sh("trap '' TERM; while :; do sleep 0.1; done"))
    container = await bench.run(pod, await bench.sandbox(pod))
    await bench.cri.stop_container(container, timeout=0)
    record = await exited(bench, pod.metadata.uid)
    assert (record.exit_code, record.reason) == (137, "Error")


async def test_an_exit_is_known_within_a_tenth_of_a_second(bench: Bench) -> None:
    pod = bench.pod(sh("sleep 0.3; exit 1"))
    await bench.run(pod, await bench.sandbox(pod))
    record = await exited(bench, pod.metadata.uid)
    heard = time.time()
    # Generous: the machine may be busy. What is ruled out is having waited for a relist.
    assert heard - record.finished_at < 0.5


async def test_the_termination_message_is_there_with_the_exit(bench: Bench) -> None:
    pod = bench.pod(sh("echo gone fishing > /dev/termination-log; exit 2"))
    await bench.run(pod, await bench.sandbox(pod))
    assert (await exited(bench, pod.metadata.uid)).message == "gone fishing\n"


async def test_tm_2_the_last_80_of_200_log_lines_stand_in_for_it(bench: Bench) -> None:
    script = "i=1; while [ $i -le 200 ]; do echo line $i; i=$((i+1)); done; exit 3"
    pod = bench.pod(sh(script, terminationMessagePolicy="FallbackToLogsOnError"))
    await bench.run(pod, await bench.sandbox(pod))
    record = await exited(bench, pod.metadata.uid)
    assert record.message == "".join(f"line {i}\n" for i in range(121, 201))


async def test_out_of_memory_is_told_as_such(bench: Bench) -> None:
    limits = {"limits": {"memory": "16Mi"}, "requests": {"memory": "16Mi"}}
    pod = bench.pod(sh("exec dd if=/dev/zero of=/dev/null bs=64M count=4", resources=limits))
    await bench.run(pod, await bench.sandbox(pod))
    record = await exited(bench, pod.metadata.uid)
    assert (record.exit_code, record.reason) == (137, "OOMKilled")


async def test_a_start_that_fails_is_an_exit_that_no_event_tells_of(bench: Bench) -> None:
    pod = bench.pod(sh("", command=["/no/such/program"]))
    container = await bench.create(pod, await bench.sandbox(pod))
    with pytest.raises(ContainerRuntimeError, match="/no/such/program"):
        await bench.start(container)
    await bench.state.refresh(container)
    record = await exited(bench, pod.metadata.uid)
    assert (record.exit_code, record.reason) == (128, "StartError")
    assert "/no/such/program" in record.message


async def test_a_sandbox_that_dies_is_not_ready_while_its_containers_run_on(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    sandbox = await bench.sandbox(pod)
    await bench.run(pod, sandbox)
    observed = bench.state.observed(pod.metadata.uid)
    assert observed.sandboxes[0].ips[0].startswith(bench.daemon.subnet)
    bench.daemon.kill_sandbox(sandbox)
    await until(bench.state, lambda: not bench.state.observed(pod.metadata.uid).sandboxes[0].ready)
    record = bench.state.observed(pod.metadata.uid).newest("main")
    assert record is not None
    assert record.state is RecordState.RUNNING


async def test_another_daemon_on_the_same_containerd_sees_only_its_own(bench: Bench) -> None:
    pod = bench.pod(sh("exec sleep 60"))
    await bench.run(pod, await bench.sandbox(pod))
    other = Bench(bench.daemon, bench.channel)
    await other.state.relist()
    assert other.state.uids() == []
    same = RuntimeState(bench.channel, owner=str(bench.root))
    await same.relist()
    known = bench.state.observed(pod.metadata.uid)
    assert [(c.id, c.state) for c in same.observed(pod.metadata.uid).containers] == [
        (c.id, c.state) for c in known.containers
    ]
    assert same.carried(pod.metadata.uid) == pod


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "crashed"])
async def test_containers_survive_a_restart_of_containerd_and_exits_meanwhile_have_their_codes(
    own_bench: Bench, how: signal.Signals
) -> None:
    bench = own_bench
    pod = bench.pod(sh("sleep 0.7; exit 7"), sh("exec sleep 60", name="other"))
    sandbox = await bench.sandbox(pod)
    await bench.run(pod, sandbox)
    await bench.run(pod, sandbox, container=1)
    await asyncio.to_thread(bench.daemon.stop, sig=how)
    with pytest.raises(RuntimeUnavailableError):
        await bench.cri.version()
    await asyncio.sleep(2)
    await asyncio.to_thread(bench.daemon.start)
    await bench.state.wait_connected()
    record = await exited(bench, pod.metadata.uid)
    assert (record.exit_code, record.reason) == (7, "Error")
    other = bench.state.observed(pod.metadata.uid).newest("other")
    assert other is not None
    assert other.state is RecordState.RUNNING
