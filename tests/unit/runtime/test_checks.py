from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest

from minikubelet.runtime import checks
from minikubelet.runtime.channel import connect
from minikubelet.runtime.checks import Finding, Report, RuntimeFacts, inspect, keep_looking, look
from minikubelet.runtime.pb import cri_pb2
from tests.support.fake_cri import FakeCRI, Trouble


@pytest.fixture
async def fake() -> AsyncIterator[FakeCRI]:
    async with FakeCRI() as server:
        yield server


@pytest.fixture
async def channel(fake: FakeCRI) -> AsyncIterator[grpc.aio.Channel]:
    async with connect(fake.socket) as opened:
        yield opened


async def _look(fake: FakeCRI, channel: grpc.aio.Channel) -> Report:
    return await look(channel, endpoint=f"unix://{fake.socket}")


async def test_a_runtime_that_answers_is_fit_and_says_who_it_is(fake: FakeCRI, channel: grpc.aio.Channel) -> None:
    report = await _look(fake, channel)
    assert report.findings == ()
    assert report.facts is not None
    assert (report.facts.name, report.facts.version, report.facts.systemd_cgroups) == ("fake", "1", None)


@pytest.mark.parametrize(
    ("runtimes", "expected"),
    [
        ({"runc": {"options": {"SystemdCgroup": True}}}, True),
        ({"runc": {"options": {}}}, False),
        ({"runc": {"options": None}}, False),
        ({}, None),
    ],
)
async def test_facts_are_read_from_the_verbose_status(
    fake: FakeCRI, channel: grpc.aio.Channel, runtimes: dict[str, object], expected: bool | None
) -> None:
    config = {
        "cni": {"binDir": "/b", "confDir": "/c"},
        "containerd": {"defaultRuntimeName": "runc", "runtimes": runtimes},
    }
    fake.info["config"] = json.dumps(config)
    facts = (await _look(fake, channel)).facts
    assert facts is not None
    assert (facts.systemd_cgroups, facts.cni_bin_dirs, facts.cni_conf_dir) == (expected, ("/b",), "/c")
    fake.info["config"] = '{"cni":{"binDir":"","binDirs":["/b1","/b2"]}}'
    facts = (await _look(fake, channel)).facts
    assert facts is not None
    assert facts.cni_bin_dirs == ("/b1", "/b2")


@pytest.mark.parametrize(
    ("configured", "systemd", "told"),
    [
        ("systemd", False, "cgroupDriver is systemd in the configuration, but containerd uses cgroupfs"),
        ("cgroupfs", True, "cgroupDriver is cgroupfs in the configuration, but containerd uses systemd"),
        ("systemd", True, ""),
        ("cgroupfs", False, ""),
        ("", True, ""),
    ],
)
async def test_cg_2_a_cgroup_driver_that_is_not_the_runtimes_is_told(
    fake: FakeCRI, channel: grpc.aio.Channel, configured: str, *, systemd: bool, told: str
) -> None:
    runtimes = {"runc": {"options": {"SystemdCgroup": systemd}}}
    fake.info["config"] = json.dumps({"containerd": {"defaultRuntimeName": "runc", "runtimes": runtimes}})
    report = await look(channel, endpoint=f"unix://{fake.socket}", cgroup_driver=configured)
    assert report.facts is not None
    assert [finding.problem.partition(":")[0] for finding in report.findings] == ([told] if told else [])


@pytest.mark.parametrize(
    ("method", "trouble", "problem", "remedy"),
    [
        pytest.param(
            "Version",
            Trouble(code=grpc.StatusCode.UNKNOWN, text="server is not initialized yet"),
            "does not answer",
            "wait",
            id="loading",
        ),
        pytest.param("Status", Trouble(code=grpc.StatusCode.UNKNOWN, text="boom"), "boom", "journalctl", id="failing"),
        pytest.param(
            "Version",
            Trouble(code=grpc.StatusCode.UNIMPLEMENTED, text="unknown service"),
            "knows neither CRI v1 nor containerd's own",
            "containerd 1.6",
            id="not containerd",
        ),
    ],
)
async def test_what_keeps_pods_from_running_is_told(
    fake: FakeCRI, channel: grpc.aio.Channel, *, method: str, trouble: Trouble, problem: str, remedy: str
) -> None:
    fake.troubles[method] = [trouble]
    report = await _look(fake, channel)
    assert report.facts is None
    (finding,) = report.findings
    assert problem in finding.problem
    assert remedy in finding.remedy


async def test_a_runtime_that_says_it_is_not_ready(fake: FakeCRI, channel: grpc.aio.Channel) -> None:
    fake.conditions = [cri_pb2.RuntimeCondition(type="RuntimeReady", reason="Why", message="because")]
    report = await _look(fake, channel)
    assert report.facts is None
    assert "not ready to run pods: Why: because" in report.findings[0].problem


async def test_without_a_network_pods_can_be_run_but_it_is_told(fake: FakeCRI, channel: grpc.aio.Channel) -> None:
    fake.conditions.append(cri_pb2.RuntimeCondition(type="NetworkReady", message="cni plugin not initialized"))
    fake.info |= {"config": '{"cni":{"confDir":"/etc/cni/x"}}', "lastCNILoadStatus": "no network config found"}
    report = await _look(fake, channel)
    assert report.facts is not None
    assert report.findings[0].problem == (
        "there is no pod network: cni plugin not initialized (no network config found)"
    )
    assert "/etc/cni/x" in report.findings[0].remedy


async def test_missing_plugins_of_the_network_are_named(fake: FakeCRI, channel: grpc.aio.Channel) -> None:
    bridge = {"Network": {"type": "bridge", "ipam": {"type": "host-local"}}}
    fake.info["config"] = json.dumps({"cni": {"binDir": "/nowhere"}})
    fake.info["cniconfig"] = json.dumps({"Networks": [{"Config": {"Plugins": [bridge]}}]})
    report = await _look(fake, channel)
    assert report.findings[0].problem == (
        "the pod network needs the CNI plugins bridge, host-local, which are not in /nowhere"
    )


async def test_waiting_tells_each_change_once_and_ends_when_pods_can_be_run(
    fake: FakeCRI, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_AGAIN_FIRST", 0.01)
    loading = Trouble(code=grpc.StatusCode.UNKNOWN, text="server is not initialized yet")
    fake.troubles["Version"] = [loading, loading, Trouble(code=grpc.StatusCode.UNKNOWN, text="boom")]
    told: list[tuple[Finding, ...]] = []
    facts = await inspect(channel, endpoint=str(fake.socket), tell=told.append)
    assert facts.name == "fake"
    assert [len(findings) for findings in told] == [1, 1, 0]


async def test_beside_running_pods_what_was_mended_and_what_went_wrong_is_told(
    fake: FakeCRI, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_LOOK_PERIOD", 0.01)
    fake.troubles["Version"] = [Trouble(code=grpc.StatusCode.UNKNOWN, text="boom")]
    told: asyncio.Queue[tuple[Finding, ...]] = asyncio.Queue()
    looking = asyncio.create_task(keep_looking(channel, endpoint=str(fake.socket), tell=told.put_nowait))
    (broken,) = await told.get()
    assert broken.problem == "containerd fails: boom"
    assert await told.get() == ()
    fake.info["cniconfig"] = '{"Networks": ["odd"]}'  # not as containerd writes it
    await asyncio.sleep(0.05)
    assert not looking.done()
    looking.cancel()


@pytest.mark.parametrize(
    ("name", "version", "can"),
    [
        ("containerd", "1.6.20~ds1", False),
        ("containerd", "v2.0.5", False),
        ("containerd", "2.1.9+ds", True),
        ("containerd", "v2.10.0", True),
        ("containerd", "unknown", False),
        ("cri-o", "2.1.0", False),
    ],
)
def test_whether_images_can_be_mounted_is_known_by_the_version(name: str, version: str, *, can: bool) -> None:
    assert RuntimeFacts(name=name, version=version, api_version="v1").image_volumes is can
