from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from minikubelet.runtime import adopt
from minikubelet.runtime.channel import connect
from minikubelet.runtime.cri import CRIClient
from minikubelet.runtime.errors import ContainerRuntimeError, NameReservedError, RuntimeUnavailableError
from minikubelet.runtime.pb import cri_pb2
from tests.support.fake_cri import FakeCRI, Trouble
from tests.unit.runtime.build import container, made, node, pod, sandbox

LOST = Trouble(code=grpc.StatusCode.UNAVAILABLE, text="Socket closed", after_work=True)
CNI = Trouble(code=grpc.StatusCode.UNKNOWN, text="failed to setup network for sandbox")


@pytest.fixture
async def fake() -> AsyncIterator[FakeCRI]:
    async with FakeCRI() as server:
        yield server


@pytest.fixture
async def cri(fake: FakeCRI) -> AsyncIterator[CRIClient]:
    async with connect(fake.socket) as channel:
        yield CRIClient(channel)


@pytest.fixture
def removed() -> list[str]:
    return []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopt, "_STEP", 0.01)
    monkeypatch.setattr(adopt, "_PATIENCE", 0.5)


async def test_a_sandbox_is_made(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    assert await adopt.run_sandbox(cri, sandbox(), removed=removed.append) in fake.sandboxes
    assert removed == []


async def test_a_sandbox_whose_reply_was_lost_is_taken_over(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    fake.troubles["RunPodSandbox"] = [LOST]
    with pytest.raises(RuntimeUnavailableError):
        await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert await adopt.run_sandbox(cri, sandbox(), removed=removed.append) == next(iter(fake.sandboxes))
    assert len(fake.sandboxes) == 1


async def test_a_broken_sandbox_of_the_name_is_removed_first(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    broken = fake.add_sandbox(sandbox(), ready=False)
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert list(fake.sandboxes) == [made_id]
    assert removed == [broken]
    assert fake.sandboxes[made_id].metadata.attempt == 0


async def test_a_ready_sandbox_that_is_not_what_we_would_make_is_not_taken_over(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    other = fake.add_sandbox(sandbox(pod(terminationGracePeriodSeconds=1)))
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert made_id != other
    assert removed == [other]


async def test_a_broken_sandbox_that_cannot_be_removed_is_passed_by_with_the_next_attempt(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    fake.add_sandbox(sandbox(), ready=False)
    fake.troubles["StopPodSandbox"] = [CNI]
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert fake.sandboxes[made_id].metadata.attempt == 1
    assert removed == []


async def test_a_name_held_by_a_call_that_is_being_undone_is_waited_for(
    fake: FakeCRI, cri: CRIClient, removed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.reserved["web_default_u-1_0"] = "f" * 64
    real = fake._pod_sandbox_status

    def after_two_looks(request: cri_pb2.PodSandboxStatusRequest) -> cri_pb2.PodSandboxStatusResponse:
        if len(fake.called("RunPodSandbox")) == 2:
            fake.reserved.clear()
        return real(request)

    monkeypatch.setattr(fake, "_pod_sandbox_status", after_two_looks)
    await fake.stop()
    await fake.start()
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert fake.sandboxes[made_id].metadata.attempt == 0


async def test_a_name_that_stays_held_is_passed_by_with_the_next_attempt(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    fake.reserved["web_default_u-1_0"] = "f" * 64
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert fake.sandboxes[made_id].metadata.attempt == 1


async def test_what_a_failed_network_leaves_behind_is_removed_and_the_runtimes_words_are_kept(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    bystander = fake.add_sandbox(sandbox(attempt=5), ready=False)
    fake.troubles["RunPodSandbox"] = [Trouble(code=CNI.code, text=CNI.text)]
    left = fake.add_sandbox(sandbox(), ready=False)
    with pytest.raises(ContainerRuntimeError) as caught:
        await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert str(caught.value) == CNI.text
    assert removed == [left]
    assert list(fake.sandboxes) == [bystander]


async def test_a_failure_whose_rest_cannot_be_removed_is_still_told_as_it_was(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    fake.troubles["RunPodSandbox"] = [CNI]
    fake.troubles["ListPodSandbox"] = [Trouble(code=grpc.StatusCode.UNKNOWN, text="other")]
    with pytest.raises(ContainerRuntimeError, match="failed to setup network"):
        await adopt.run_sandbox(cri, sandbox(), removed=removed.append)


async def test_somebody_elses_sandbox_is_never_removed(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    """GC-4, D-7."""
    elsewhere = sandbox(at=node(root_dir=Path("/another")))
    other = fake.add_sandbox(elsewhere, ready=False)
    made_id = await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert fake.sandboxes[made_id].metadata.attempt == 1
    fake.troubles["RunPodSandbox"] = [CNI]
    with pytest.raises(ContainerRuntimeError):
        await adopt.run_sandbox(cri, sandbox(), removed=removed.append)
    assert other in fake.sandboxes
    assert removed == []


async def _create(cri: CRIClient, sandbox_id: str, removed: list[str]) -> str:
    config = made(container(), restart_count=0)
    return await adopt.create_container(cri, sandbox_id, config, sandbox_config=sandbox(), removed=removed.append)


async def test_a_container_that_a_lost_reply_left_is_replaced(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    fake.troubles["CreateContainer"] = [LOST]
    with pytest.raises(RuntimeUnavailableError):
        await _create(cri, sandbox_id, removed)
    left = next(iter(fake.containers))
    created = await _create(cri, sandbox_id, removed)
    assert list(fake.containers) == [created]
    assert removed == [left]


async def test_a_container_that_runs_under_the_name_is_left_alone(
    fake: FakeCRI, cri: CRIClient, removed: list[str]
) -> None:
    sandbox_id = fake.add_sandbox(sandbox())
    running = fake.add_container(sandbox_id, made(), running=True)
    with pytest.raises(NameReservedError) as caught:
        await _create(cri, sandbox_id, removed)
    assert caught.value.holder == running
    assert running in fake.containers


async def test_somebody_elses_container_is_never_removed(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    """GC-4, D-7."""
    sandbox_id = fake.add_sandbox(sandbox())
    other = fake.add_container(sandbox_id, made())
    fake.containers[other].annotations["minikubelet/root"] = "/another"
    with pytest.raises(NameReservedError):
        await _create(cri, sandbox_id, removed)
    assert other in fake.containers


async def test_a_container_name_that_stays_held_is_given_up(fake: FakeCRI, cri: CRIClient, removed: list[str]) -> None:
    fake.reserved["main_0"] = "e" * 64
    with pytest.raises(NameReservedError):
        await _create(cri, fake.add_sandbox(sandbox()), removed)
    assert len(fake.called("CreateContainer")) > 1, "it was tried again"
