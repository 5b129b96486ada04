"""Archives into a real containerd, and what the start-up checks say of it in each condition."""

from __future__ import annotations

import asyncio
import gzip
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import pytest
from backports import zstd

from minikubelet.runtime import archive
from minikubelet.runtime.archive import ArchiveError
from minikubelet.runtime.channel import NAMESPACE, connect
from minikubelet.runtime.checks import Finding, inspect, look
from minikubelet.runtime.images import ImageService, Record
from minikubelet.runtime.pb import leases_pb2, leases_pb2_grpc
from tests.integration.runtime.conftest import Bench, eventually, sh
from tests.support.containerd import PrivateContainerd
from tests.support.images import PAUSE_NAME, Image, write_archive, write_docker_archive

pytestmark = pytest.mark.containerd


def _image(tag: str) -> Image:
    return Image(names=(f"docker.io/library/loaded:{tag}",), files={"mark": tag.encode()})


async def _load(bench: Bench, archive: Path) -> list[str]:
    return [image.name for image in await bench.images.import_archive(archive)]


async def _runs(bench: Bench, image: str, mark: str) -> None:
    """The image is really there: a container of it runs, and finds the file."""
    pod = bench.pod(sh("cat /mark > /dev/termination-log; exec sleep 60", image=image))
    container = await bench.run(pod, await bench.sandbox(pod))
    assert (await bench.cri.exec_sync(container, ["cat", "/mark"])).stdout.decode() == mark


async def test_an_oci_layout_is_loaded_and_runs(bench: Bench, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "a.tar", [_image("oci")])
    assert await _load(bench, archive) == ["docker.io/library/loaded:oci"]
    await _runs(bench, "loaded:oci", "oci")
    assert await _load(bench, archive) == ["docker.io/library/loaded:oci"]


async def test_gzipped_layers_of_many_messages_are_loaded(bench: Bench, tmp_path: Path) -> None:
    image = Image(names=("docker.io/library/loaded:gz",), files={"mark": b"gz"}, padding=3 << 20)
    plain = write_archive(tmp_path / "plain.tar", [image])
    await bench.images.import_archive(plain)
    await _runs(bench, "loaded:gz", "gz")
    await bench.images.import_archive(write_archive(tmp_path / "a.tar", [_image("gz2")], compress=True))
    await _runs(bench, "loaded:gz2", "gz2")


async def test_a_docker_archive_is_loaded_and_runs_gzipped_or_not(bench: Bench, tmp_path: Path) -> None:
    archive = write_docker_archive(tmp_path / "a.tar", _image("docker"))
    assert await _load(bench, archive) == ["docker.io/library/loaded:docker"]
    await _runs(bench, "loaded:docker", "docker")
    packed = tmp_path / "b.tar.gz"
    packed.write_bytes(gzip.compress(write_docker_archive(tmp_path / "b.tar", _image("packed")).read_bytes(), 1))
    assert await _load(bench, packed) == ["docker.io/library/loaded:packed"]
    await _runs(bench, "loaded:packed", "packed")


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["tar.gz", "tar.zst"])
async def test_a_packed_archive_is_loaded_and_runs(
    bench: Bench, tmp_path: Path, pack: Callable[[bytes], bytes], request: pytest.FixtureRequest
) -> None:
    tag = request.node.callspec.id.replace(".", "-")
    image = Image(names=(f"docker.io/library/loaded:{tag}",), files={"mark": tag.encode()}, padding=3 << 20)
    packed = tmp_path / "archive"
    packed.write_bytes(pack(write_archive(tmp_path / "a.tar", [image]).read_bytes()))
    assert await _load(bench, packed) == [f"docker.io/library/loaded:{tag}"]
    await _runs(bench, f"loaded:{tag}", tag)


async def test_an_image_for_another_platform_is_told(bench: Bench, tmp_path: Path) -> None:
    image = Image(names=("docker.io/library/foreign:1",), architecture="s390x")
    with pytest.raises(ArchiveError, match="is made for s390x, and not for "):
        await _load(bench, write_archive(tmp_path / "a.tar", [image], index=True))


async def test_what_minikubelet_brought_is_known(bench: Bench, tmp_path: Path) -> None:
    (image,) = await bench.images.import_archive(write_archive(tmp_path / "a.tar", [_image("mark")]))
    record = (await bench.images.records())[image.name]
    assert record == Record(digest=image.digest, brought=True)
    await bench.images.mark_brought([image.name, "docker.io/library/nosuch:1"])
    assert (await bench.images.records())[image.name] == record


async def test_a_name_moves_to_the_image_loaded_last(bench: Bench, tmp_path: Path) -> None:
    names = ("docker.io/library/moving:1",)
    first = Image(names=names, files={"mark": b"1"})
    await bench.images.import_archive(write_archive(tmp_path / "1.tar", [first]))
    before = await bench.images.status("moving:1")
    await bench.images.import_archive(write_archive(tmp_path / "2.tar", [Image(names=names, files={"mark": b"2"})]))
    after = await bench.images.status("moving:1")
    assert before is not None
    assert after is not None
    assert before.id != after.id
    await bench.images.remove("moving:1")
    assert await bench.images.status("moving:1") is None


async def test_a_damaged_layer_is_told_and_does_not_spoil_the_next_try(own_bench: Bench, tmp_path: Path) -> None:
    image = Image(names=("docker.io/library/damaged:1",), files={"mark": b"x"}, padding=1 << 20)
    good = write_archive(tmp_path / "good.tar", [image])
    data = bytearray(good.read_bytes())
    # In the padding of the layer, whose zeros make up most of the file.
    where = data.index(bytes(1 << 20)) + (1 << 19)
    data[where] = 1
    bad = tmp_path / "bad.tar"
    bad.write_bytes(data)
    for _ in range(2):
        with pytest.raises(ArchiveError, match=r"bad\.tar: blob sha256:\w+ is damaged"):
            await own_bench.images.import_archive(bad)
    assert await _load(own_bench, good) == ["docker.io/library/damaged:1"]


@pytest.mark.parametrize("content", [b"", b"no tar at all" * 100, b"\x1f\x8bbroken"], ids=["empty", "text", "bad gzip"])
async def test_what_is_no_archive_is_told(bench: Bench, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.tar"
    file.write_bytes(content)
    with pytest.raises(ArchiveError, match=str(file)):
        await bench.images.import_archive(file)
    with pytest.raises(ArchiveError, match="No such file"):
        await bench.images.import_archive(tmp_path / "missing.tar")


async def test_what_a_killed_daemon_was_writing_goes_at_its_next_start_and_nothing_of_anothers(
    own_bench: Bench, tmp_path: Path
) -> None:
    daemon = own_bench.daemon
    ingests = daemon.base / "root/io.containerd.content.v1.content/ingest"
    image = Image(names=("docker.io/library/cut:1",), padding=64 << 20)
    archive = write_archive(tmp_path / "a.tar", [image])
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from minikubelet.runtime import archive\n"
        "from minikubelet.runtime.channel import connect\n"
        "from minikubelet.runtime.images import ImageService\n"
        "async def rest(piece, source):\n"
        "    yield piece\n"
        "    print('begun', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "archive._rest = rest\n"
        "async def main():\n"
        "    async with connect(Path(sys.argv[1])) as channel:\n"
        "        await ImageService(channel, owner=sys.argv[2]).import_archive(Path(sys.argv[3]))\n"
        "asyncio.run(main())\n"
    )
    for owner in ("ours", "ours", "another's"):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, daemon.socket, owner, archive, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"begun\n"
        child.kill()
        await child.wait()
    assert len(list(ingests.iterdir())) == 3
    service = ImageService(own_bench.channel, owner="ours")
    assert await own_bench.images.clear_imports() == 0, "it has no name"
    assert await service.clear_imports() == 2
    assert len(list(ingests.iterdir())) == 1
    assert await service.clear_imports() == 0
    assert [it.name for it in await service.import_archive(archive)] == ["docker.io/library/cut:1"]


async def _leases(bench: Bench) -> list[str]:
    stub = leases_pb2_grpc.LeasesStub(bench.channel)
    return [it.id for it in (await stub.List(leases_pb2.ListRequest(), metadata=NAMESPACE, wait_for_ready=True)).leases]


async def test_an_import_that_containerd_did_not_survive_leaves_nothing_for_long(
    own_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(*_: object) -> None:
        await asyncio.to_thread(own_bench.daemon.stop, sig=signal.SIGKILL)
        raise RuntimeError("cut")

    one, two = (write_archive(tmp_path / f"{it}.tar", [_image(it)]) for it in ("one", "two"))
    with monkeypatch.context() as patched:
        patched.setattr(archive, "_put", cut)
        with pytest.raises(RuntimeError, match="cut"):
            await own_bench.images.import_archive(one)
    await asyncio.to_thread(own_bench.daemon.start)
    assert len(await _leases(own_bench)) == 1
    await own_bench.images.import_archive(two)
    assert await _leases(own_bench) == []


async def test_a_pull_without_a_registry_fails_in_the_runtimes_words(bench: Bench) -> None:
    with pytest.raises(Exception, match=r"minikubelet\.invalid"):
        await bench.images.pull("minikubelet.invalid/no:1")


async def test_images_and_their_file_system_are_listed(bench: Bench) -> None:
    names = [name for image in await bench.images.list_images() for name in image.repo_tags]
    assert PAUSE_NAME in names
    usage = (await bench.images.filesystem())[0]
    assert usage.fs_id.mountpoint.startswith(str(bench.daemon.base))


async def test_a_healthy_runtime_has_nothing_to_say(bench: Bench) -> None:
    report = await look(bench.channel, endpoint=str(bench.daemon.socket))
    assert report.facts is not None
    assert report.findings == ()
    assert report.facts.name == "containerd"
    assert report.facts.systemd_cgroups is False
    assert report.facts.sandbox_image in {PAUSE_NAME, ""}
    assert report.facts.cni_conf_dir == str(bench.daemon.cni_conf_dir)
    assert report.facts.cni_bin_dirs


async def test_each_trouble_is_told_with_its_remedy_until_it_is_mended(tmp_path: Path) -> None:
    daemon = PrivateContainerd(cni=False)
    told: list[tuple[Finding, ...]] = []
    try:
        async with connect(daemon.socket) as channel:
            waiting = asyncio.create_task(
                inspect(channel, endpoint=f"unix://{daemon.socket}", tell=told.append), name="inspect"
            )
            await asyncio.sleep(0.3)
            assert "does not exist" in told[-1][0].problem
            await asyncio.to_thread(daemon.start)
            async with asyncio.timeout(10):
                facts = await waiting
            assert facts.version
            problems = " ".join(finding.problem for finding in told[-1])
            assert "there is no pod network" in problems
            await asyncio.to_thread(daemon.write_cni, extra={"type": "nosuch"})
            await eventually(lambda: _is_told("CNI plugins nosuch", channel, daemon))
            await asyncio.to_thread(daemon.stop, sig=9)
            assert await _is_told("nothing listens on", channel, daemon)
    finally:
        await asyncio.to_thread(daemon.destroy)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param(
            "version = 2\n",
            'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n',
            "containerd's CRI plugin is turned off",
            id="disabled",
        ),
        pytest.param(
            'default_runtime_name = "runc"',
            'default_runtime_name = "runc"\n    snapshotter = "nosuch"',
            "failed to load: ",
            id="broken",
        ),
    ],
)
async def test_a_cri_plugin_that_is_not_there_is_told(old: str, new: str, problem: str) -> None:
    daemon = PrivateContainerd()
    config = daemon.base / "config.toml"
    config.write_text(config.read_text().replace(old, new))
    try:
        await asyncio.to_thread(daemon.start, wait=False)
        async with connect(daemon.socket) as channel:
            await eventually(lambda: _is_told(problem, channel, daemon))
    finally:
        await asyncio.to_thread(daemon.stop)
        config.write_text(config.read_text().replace(new, old))
        await asyncio.to_thread(daemon.destroy)


async def _is_told(problem: str, channel: grpc.aio.Channel, daemon: PrivateContainerd) -> bool:
    report = await look(channel, endpoint=str(daemon.socket))
    return any(problem in finding.problem for finding in report.findings)
