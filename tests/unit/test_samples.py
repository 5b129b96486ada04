"""The samples are what people copy: each has to be accepted as it stands, and to be the story that it tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minikubelet.api.batch import Job
from minikubelet.api.decode import decode_file
from minikubelet.api.objects import refs_of
from minikubelet.api.pod import Pod, is_sidecar
from minikubelet.sources.desired import object_key
from tests.support.images import BUSYBOX_NAME
from tests.support.software import SOFTWARE

SAMPLES = sorted((Path(__file__).parents[2] / "configs/samples").glob("*.yaml"))
#: What can be had on a host without registry: scripts/sample-image makes these.
IMAGES = {
    name.removeprefix("docker.io/").removeprefix("library/")
    for name in (BUSYBOX_NAME, *(name for it in SOFTWARE.values() for name in it.names))
}
#: Samples that tell of something else than a sidecar.
WITHOUT_SIDECAR = {"redis-with-claim"}


def pod_of(sample: Path) -> Pod:
    """The pod that a sample defines, by itself or by a Job."""
    read = decode_file(str(sample), sample.read_bytes(), node_name="node")
    assert not read.errors, "\n".join(map(str, read.errors))
    assert not read.notes, "a sample shall have no field that does nothing:\n" + "\n".join(map(str, read.notes))
    (workload,) = (it for it in read.objects if isinstance(it, Pod | Job))
    pod = workload if isinstance(workload, Pod) else Pod(metadata=workload.metadata, spec=workload.spec.template.spec)
    missing = {tuple(ref) for ref in refs_of(pod)} - {tuple(object_key(it)) for it in read.objects}
    assert not missing, "what a sample refers to stands beside it"
    return pod


def test_there_are_samples() -> None:
    assert {sample.stem for sample in SAMPLES} == {
        "batch-with-rsyslog", "batch-with-shipper", "log-shipper", "proxy-gate", "redis-with-claim",
        "web-behind-haproxy", "web-with-configuration",
    }  # fmt: skip


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_sample_is_accepted_bears_its_files_name_and_can_run_anywhere(sample: Path) -> None:
    pod = pod_of(sample)
    assert pod.metadata.name == sample.stem
    assert any(is_sidecar(entry) for entry in pod.spec.init_containers) or sample.stem in WITHOUT_SIDECAR
    assert {c.image for c in (*pod.spec.init_containers, *pod.spec.containers)} <= IMAGES


def test_the_command_that_makes_images_knows_all_that_can_be_made() -> None:
    script = (Path(__file__).parents[2] / "scripts/sample-image").read_text()
    (known,) = re.findall(r"(?m)^KNOWN=\((.*)\)$", script)
    assert known.split() == ["busybox", "pause", *SOFTWARE]
    assert f"NAME...      {known}" in script, "its help, too"
