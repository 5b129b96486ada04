from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from minikubelet.lifecycle.records import ObservedContainer, RecordState
from minikubelet.runtime import exits, state
from minikubelet.runtime.channel import connect
from minikubelet.runtime.errors import ContainerRuntimeError
from minikubelet.runtime.pb import cri_pb2, task_events_pb2
from minikubelet.runtime.state import RuntimeState
from tests.support.fake_cri import FakeCRI, Trouble
from tests.unit.runtime.build import NODE, container, made, node, pod, sandbox

OWNER = str(NODE.root_dir)
UID = "u-1"


@pytest.fixture
async def fake() -> AsyncIterator[FakeCRI]:
    async with FakeCRI() as server:
        yield server


@contextlib.asynccontextmanager
async def following(fake: FakeCRI, relist_period: float = 60) -> AsyncIterator[RuntimeState]:
    """A state that runs and has looked through everything, and hears events."""
    async with connect(fake.socket) as channel:
        observer = RuntimeState(channel, owner=OWNER, relist_period=relist_period)
        running = asyncio.create_task(observer.run(), name="run the state")
        try:
            async with asyncio.timeout(15):
                await observer.wait_connected()
                await fake.subscribed.wait()
            yield observer
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def until(observer: RuntimeState, condition: Callable[[], bool]) -> None:
    """Wait for a change after which the condition holds."""
    changed = asyncio.Event()
    end = observer.subscribe(lambda _: changed.set())
    try:
        async with asyncio.timeout(15):
            while not condition():
                await changed.wait()
                changed.clear()
    finally:
        end()


def newest(observer: RuntimeState, name: str = "main") -> ObservedContainer:
    found = observer.observed(UID).newest(name)
    assert found is not None
    return found


def is_exited(observer: RuntimeState) -> Callable[[], bool]:
    return lambda: newest(observer).state is RecordState.EXITED


async def test_what_is_there_at_the_start_is_known_newest_first(fake: FakeCRI) -> None:
    first = fake.add_sandbox(sandbox(), ready=False)
    second = fake.add_sandbox(sandbox(attempt=1))
    old = fake.add_container(first, made(), running=True)
    fake.catch_up(old, 3)
    running = fake.add_container(second, made(restart_count=1), running=True)
    created = fake.add_container(second, made(restart_count=2))
    async with following(fake) as observer:
        observed = observer.observed(UID)
        assert [(s.id, s.attempt, s.ready, s.ips) for s in observed.sandboxes] == [
            (second, 1, True, ("10.0.0.2",)),
            (first, 0, False, ()),
        ]
        assert [(c.id, c.state) for c in observed.containers] == [
            (created, RecordState.CREATED),
            (running, RecordState.RUNNING),
            (old, RecordState.EXITED),
        ]
        known = observed.containers[2]
        assert (known.exit_code, known.reason, known.sandbox_id) == (3, "Error", first)
        assert (known.image, known.image_id, known.hash) == ("busybox:1.36", "sha256:abc", "42f056bf")
        assert observer.uids() == [UID]


async def test_the_newest_is_the_newest_though_the_clock_was_set_back_before_it_was_made(fake: FakeCRI) -> None:
    first = fake.add_sandbox(sandbox(), ready=False)
    second = fake.add_sandbox(sandbox(attempt=1))
    old = fake.add_container(second, made(), running=True)
    new = fake.add_container(second, made(restart_count=1), running=True)
    fake.sandboxes[first].created_at += 3_600_000_000_000
    fake.containers[old].created_at += 3_600_000_000_000
    async with following(fake) as observer:
        observed = observer.observed(UID)
        assert [s.id for s in observed.sandboxes] == [second, first]
        assert [c.id for c in observed.containers] == [new, old]


async def test_only_what_has_our_mark_is_seen(fake: FakeCRI) -> None:  # GC-4, D-7
    other = fake.add_sandbox(sandbox(at=node(root_dir=Path("/another"))))
    fake.add_container(other, made())  # bears our mark, but lies in a sandbox that does not: still ours
    del fake.containers[next(iter(fake.containers))].annotations["minikubelet/root"]
    async with following(fake) as observer:
        assert observer.uids() == []


async def test_the_pod_that_a_sandbox_carries_comes_back(fake: FakeCRI) -> None:
    of = pod(container("a"), terminationGracePeriodSeconds=3)
    fake.add_sandbox(sandbox(of))
    async with following(fake) as observer:
        assert observer.carried(UID) == of
        assert observer.carried("unknown") is None


async def test_a_carried_pod_that_this_version_cannot_read_is_none(fake: FakeCRI) -> None:
    config = sandbox()
    config.annotations["minikubelet/pod"] = '{"kind":"Pod","spec":{"fromTheFuture":1}}'
    fake.add_sandbox(config)
    async with following(fake) as observer:
        assert observer.carried(UID) is None


async def test_an_exit_is_published_from_the_event_while_cri_still_says_running(fake: FakeCRI, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text("bye")
    running = fake.add_container(fake.add_sandbox(sandbox()), made(termination_log=str(message)), running=True)
    async with following(fake) as observer:
        fake.exit(running, 4, known=False)
        await until(observer, is_exited(observer))
        record = newest(observer)
        assert (record.exit_code, record.reason, record.message) == (4, "Error", "bye")
        assert record.finished_at > record.started_at > 0
        assert fake.containers[running].state == cri_pb2.CONTAINER_RUNNING


async def test_tm_1_of_two_mounts_at_the_path_the_last_words_are_in_ours(fake: FakeCRI, tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("bye")
    (tmp_path / "other").write_text("other")
    of = container(volumeMounts=[{"name": "v", "mountPath": "/dev/termination-log"}])
    within = pod(of, volumes=[{"name": "v", "emptyDir": {}}])
    volumes, ours = {"v": str(tmp_path / "other")}, str(tmp_path / "ours")
    config = made(of, within=within, volumes=volumes, termination_log=ours)
    running = fake.add_container(fake.add_sandbox(sandbox()), config, running=True)
    async with following(fake) as observer:
        assert observer.message_files(UID) == {ours}
        assert observer.message_files("other") == frozenset()
        fake.exit(running, 4, known=False)
        await until(observer, is_exited(observer))
        assert newest(observer).message == "bye"


async def test_cris_own_account_completes_the_exit_later(fake: FakeCRI) -> None:
    running = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        fake.exit(running, 0, known=False)
        await until(observer, is_exited(observer))
        assert newest(observer).reason == "Completed"
        fake.catch_up(running, 0, reason="OOMKilled")
        await until(observer, lambda: newest(observer).reason == "OOMKilled")


async def test_an_oom_before_the_exit_makes_it_oomkilled_whatever_the_code(fake: FakeCRI) -> None:
    running = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        fake.emit("/tasks/oom", task_events_pb2.TaskOOM(container_id=running))
        fake.exit(running, 0, known=False)
        await until(observer, is_exited(observer))
        assert (newest(observer).reason, newest(observer).exit_code) == ("OOMKilled", 0)


async def test_the_exit_of_an_exec_is_nobodys_exit(fake: FakeCRI) -> None:
    running = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        fake.emit("/tasks/exit", task_events_pb2.TaskExit(container_id=running, id="exec-1", exit_status=1))
        fake.exit(running, 9)
        await until(observer, is_exited(observer))
        assert newest(observer).exit_code == 9


async def test_the_log_stands_in_for_an_empty_message_once_cri_has_all_of_it(fake: FakeCRI, tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text("t stdout F half\n")
    config = made(container(terminationMessagePolicy="FallbackToLogsOnError"))
    config.log_path = str(log)
    running = fake.add_container(fake.add_sandbox(sandbox()), config, running=True)
    async with following(fake) as observer:
        fake.exit(running, 1, known=False)
        await fake.until_called("ContainerStatus", 3)  # one at the start, two to see whether CRI knows yet
        assert newest(observer).state is RecordState.RUNNING
        log.write_text("t stdout F half\nt stderr F whole\n")
        fake.catch_up(running, 1)
        await until(observer, is_exited(observer))
        assert newest(observer).message == "half\nwhole\n"


async def test_a_sandbox_whose_process_ended_is_not_ready_at_once(fake: FakeCRI) -> None:
    dead = fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        fake.exit(dead, 137)
        await until(observer, lambda: not observer.observed(UID).sandboxes[0].ready)
        assert observer.observed(UID).sandboxes[0].ips == ()
        assert observer.observed(UID).ready_sandbox() is None


async def test_own_deeds_are_known_without_asking(fake: FakeCRI) -> None:
    async with following(fake) as observer:
        changes: list[str] = []
        observer.subscribe(changes.append)
        sandbox_id = fake.add_sandbox(sandbox())
        observer.note_sandbox(fake.sandboxes[sandbox_id])
        asked = len(fake.calls)
        config = made()
        observer.note_created("c1", sandbox_id=sandbox_id, config=config, log_directory="/logs")
        assert newest(observer).state is RecordState.CREATED
        observer.note_started("c1")
        assert newest(observer).state is RecordState.RUNNING
        assert newest(observer).started_at > 0
        observer.note_sandbox_stopped(sandbox_id)
        assert not observer.observed(UID).sandboxes[0].ready
        observer.note_removed(sandbox_id)
        assert observer.observed(UID).containers == ()
        assert observer.uids() == []
        assert changes == [UID] * 5
        assert len(fake.calls) == asked


async def test_a_container_that_ends_before_its_start_call_returns_stays_ended(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        created = fake.add_container(sandbox_id, made())
        observer.note_created(created, sandbox_id=sandbox_id, config=made(), log_directory="/logs")
        fake.emit("/tasks/start", task_events_pb2.TaskStart(container_id=created))
        fake.exit(created, 5)
        await until(observer, is_exited(observer))
        observer.note_started(created)
        assert (newest(observer).state, newest(observer).exit_code) == (RecordState.EXITED, 5)
        assert 0 < newest(observer).started_at <= newest(observer).finished_at


async def test_a_failed_start_is_known_by_asking(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    created = fake.add_container(sandbox_id, made())
    async with following(fake) as observer:
        fake.catch_up(created, 128, reason="StartError")
        fake.containers[created].message = "no such file"
        await observer.refresh(created)
        record = newest(observer)
        assert (record.state, record.reason, record.message) == (RecordState.EXITED, "StartError", "no such file")


async def test_asking_for_a_container_that_is_gone_removes_it(fake: FakeCRI) -> None:
    created = fake.add_container(fake.add_sandbox(sandbox()), made())
    async with following(fake) as observer:
        del fake.containers[created]
        await observer.refresh(created)
        assert observer.observed(UID).containers == ()


async def test_a_look_through_everything_finds_what_no_event_told(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    running = fake.add_container(sandbox_id, made(), running=True)
    gone = fake.add_container(sandbox_id, made(restart_count=1))
    async with following(fake) as observer:
        fake.exit(running, 6, event=False)
        del fake.containers[gone]
        await observer.relist()
        assert [(c.id, c.exit_code) for c in observer.observed(UID).containers] == [(running, 6)]


async def test_a_look_at_one_pod_leaves_the_others_alone(fake: FakeCRI) -> None:
    fake.add_sandbox(sandbox())
    other = fake.add_sandbox(sandbox(pod(metadata={"uid": "u-2"})))
    async with following(fake) as observer:
        del fake.sandboxes[other]
        await observer.relist(UID)
        assert sorted(observer.uids()) == [UID, "u-2"]
        await observer.relist("u-2")
        assert observer.uids() == [UID]


async def test_a_look_that_fails_says_so_plainly(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        fake.add_container(sandbox_id, made())
        fake.troubles["ContainerStatus"] = [Trouble(code=grpc.StatusCode.UNKNOWN, text="boom")]
        with pytest.raises(ContainerRuntimeError, match="boom"):
            await observer.relist()


async def test_nothing_new_costs_two_calls(fake: FakeCRI) -> None:
    fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        asked = len(fake.calls)
        await observer.relist()
        assert [name for name, _ in fake.calls[asked:]] == ["ListPodSandbox", "ListContainers"]


async def test_an_old_list_does_not_undo_what_was_done_meanwhile(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        removed = fake.add_container(sandbox_id, made())
        fake.troubles["ContainerStatus"] = [Trouble(delay=0.1)]
        look = asyncio.create_task(observer.relist(), name="look")
        await fake.until_called("ContainerStatus", 1)
        observer.note_removed(removed)
        observer.note_created("fresh", sandbox_id=sandbox_id, config=made(restart_count=1), log_directory="/logs")
        await look
        assert [c.id for c in observer.observed(UID).containers] == ["fresh"]


async def test_what_was_made_while_the_list_was_taken_is_not_missed_in_it(fake: FakeCRI) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        fake.troubles["ListContainers"] = [Trouble(delay=0.1)]
        look = asyncio.create_task(observer.relist(), name="look")
        await fake.until_called("ListContainers", 2)
        observer.note_created("fresh", sandbox_id=sandbox_id, config=made(), log_directory="/logs")
        await look
        assert [c.id for c in observer.observed(UID).containers] == ["fresh"]


async def test_after_an_absence_of_the_runtime_everything_is_looked_through(fake: FakeCRI) -> None:
    running = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        await fake.stop()
        fake.exit(running, 8, event=False)
        assert newest(observer).state is RecordState.RUNNING
        await fake.start()
        await until(observer, is_exited(observer))
        assert newest(observer).exit_code == 8


async def test_lost_returns_when_the_runtime_is_back(fake: FakeCRI) -> None:
    async with following(fake) as observer:
        await fake.stop()
        waiting = asyncio.create_task(observer.lost(), name="lost")
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await fake.start()
        async with asyncio.timeout(15):
            await waiting
        assert observer.connected


async def test_lost_notices_a_runtime_that_still_streams_but_does_not_answer(fake: FakeCRI) -> None:
    async with following(fake) as observer:
        fake.troubles["Status"] = [Trouble(code=grpc.StatusCode.UNKNOWN, text="server is not initialized yet")]
        looked = len(fake.called("ListContainers"))
        async with asyncio.timeout(15):
            await observer.lost()
        assert len(fake.called("ListContainers")) == looked + 1


async def test_a_runtime_that_is_still_loading_is_waited_for(fake: FakeCRI) -> None:
    loading = Trouble(code=grpc.StatusCode.UNKNOWN, text="server is not initialized yet")
    fake.troubles["ListPodSandbox"] = [loading, loading]
    fake.add_sandbox(sandbox())
    async with following(fake) as observer:
        assert observer.uids() == [UID]


async def test_what_ended_in_the_moment_of_the_subscription_is_found_by_a_second_look(
    fake: FakeCRI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_SECOND_LOOK", 0.2)
    running = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    async with following(fake) as observer:
        fake.exit(running, 2, event=False)
        await until(observer, is_exited(observer))


async def test_everything_is_looked_through_again_and_again(fake: FakeCRI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_SECOND_LOOK", 0.0)
    async with following(fake, relist_period=0.05):
        async with asyncio.timeout(15):
            await fake.until_called("ListContainers", 5)


@pytest.fixture
def short_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exits, "HOLD", 0.3)


async def test_a_lost_exit_code_is_held_back_until_the_true_one_comes(fake: FakeCRI) -> None:
    lost = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    fake.catch_up(lost, 255, reason="Unknown")
    async with following(fake) as observer:
        assert newest(observer).state is RecordState.RUNNING
        await observer.relist()
        assert newest(observer).state is RecordState.RUNNING
        fake.exit(lost, 7, known=False)
        await until(observer, is_exited(observer))
        await asyncio.sleep(0.1)
        assert (newest(observer).exit_code, newest(observer).reason) == (7, "Error")


async def test_a_lost_exit_code_is_told_when_no_true_one_comes(fake: FakeCRI, short_hold: None) -> None:
    lost = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    fake.catch_up(lost, 255, reason="Unknown")
    async with following(fake) as observer:
        await until(observer, is_exited(observer))
        assert (newest(observer).exit_code, newest(observer).reason) == (255, "Unknown")


async def test_a_true_code_that_comes_after_all_replaces_the_lost_one(fake: FakeCRI, short_hold: None) -> None:
    lost = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    fake.catch_up(lost, 255, reason="Unknown")
    async with following(fake) as observer:
        await until(observer, is_exited(observer))
        fake.exit(lost, 7, known=False)
        await until(observer, lambda: newest(observer).exit_code == 7)
        await asyncio.sleep(0.1)
        assert newest(observer).exit_code == 7


async def test_a_lost_exit_code_of_long_ago_is_not_held_back(fake: FakeCRI) -> None:
    lost = fake.add_container(fake.add_sandbox(sandbox()), made(), running=True)
    fake.catch_up(lost, 255, reason="Unknown", at=1_700_000_000_000_000_000)
    async with following(fake) as observer:
        assert newest(observer).exit_code == 255


async def test_a_subscription_can_be_ended(fake: FakeCRI) -> None:
    async with following(fake) as observer:
        changes: list[str] = []
        observer.subscribe(changes.append)()
        observer.note_sandbox(fake.sandboxes[fake.add_sandbox(sandbox())])
        assert changes == []
